"""What all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    """Programs that a test runs in this process set theirs for good."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    before = [(number, signal.getsignal(number)) for number in numbers]
    yield
    for number, handler in before:
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept", action="store_true", help="rewrite the golden files")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need what this machine lacks are skipped, with the reason."""
    root = os.geteuid() == 0
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))
        if (item.get_closest_marker("hosts") or item.get_closest_marker("engine")) and not root:
            item.add_marker(pytest.mark.skip(reason="virtual hosts need root: run the tests with sudo"))
