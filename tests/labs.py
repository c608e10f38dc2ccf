"""Virtual hosts for any test that needs real ones: `with lab_hosts(2, tmp_path_factory) as lab: ...`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from pdctl.lab import Bind, Lab


@contextmanager
def lab_hosts(
    count: int, tmp_path_factory: pytest.TempPathFactory, binds: Sequence[Bind] = (), prefix: str = "h"
) -> Iterator[Lab]:
    """A lab with `count` hosts that answer on ssh, gone at the end; all labs share one base tree."""
    with Lab(tmp_path_factory.mktemp("lab"), report=print) as lab:
        lab.up(count, prefix, binds)
        yield lab
