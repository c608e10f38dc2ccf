"""Engines for the simulator's tests, stopped when the test or the session is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.simulator.simulated import Farm, Instance, Pair, farm_in


@pytest.fixture
def farm(tmp_path: Any) -> Iterator[Farm]:
    with farm_in(tmp_path) as farm:
        yield farm


@pytest.fixture(scope="session")
def aggregated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with farm_in(tmp_path_factory.mktemp("aggregated")) as farm:
        instance = farm.spawn("--served-model-name", "small", eos_every=32)
        farm.up(instance)
        yield instance


@pytest.fixture
def pair(farm: Farm, tmp_path: Any) -> Iterator[Callable[..., Pair]]:
    pairs: list[Pair] = []

    def start(**options: Any) -> Pair:
        pairs.append(Pair(farm, tmp_path, **options))
        return pairs[-1]

    yield start
    for started in pairs:
        started.close()
