"""What tests of faults share: one line on hosts that do not see the bundle, so that pdctl has to bring it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.line import Line, line_on_hosts


@pytest.fixture(scope="session")
def unbound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """Applied once, then broken and mended by one module of tests after the other."""
    with line_on_hosts(tmp_path_factory, bound=False) as line:
        line.apply()
        yield line


@pytest.fixture
def line(unbound: Line) -> Line:
    """Both hosts are as SPEC says when the test begins. Modules with hosts of their own have their own."""
    unbound.mend()
    return unbound
