"""Engines for the simulator's tests, stopped when the test or the session is over."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.simulator.simulated import Farm, Instance, Pair, farm_in, pair_in


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    with farm_in(tmp_path) as farm:
        yield farm


@pytest.fixture(scope="session")
def aggregated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with farm_in(tmp_path_factory.mktemp("aggregated")) as farm:
        instance = farm.spawn("--served-model-name", "small", eos_every=32)
        farm.up(instance)
        yield instance


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Callable[..., Pair]]:
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(pair_in(tmp_path, **options))
