"""Each distribution is built once, and each kind of install made once."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tests.packaging import distributions
from tests.packaging.distributions import Built, Installed


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return distributions.build(tmp_path_factory.mktemp("packaging"))


@pytest.fixture(scope="session")
def install(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Installed]:
    """`wheel`, `wheel from the sdist` or `editable` -> an environment that holds it."""

    @functools.cache
    def installed(kind: str) -> Installed:
        return distributions.install(built, kind, tmp_path_factory.mktemp("installed"))

    return installed
