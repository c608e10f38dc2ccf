"""Clocks that go wrong, for a program here or for what pdctl runs on a host: Debian's libfaketime."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hosts.line import Line

PYTHON = "/usr/bin/python3"  # what pdctl starts on hosts
THERE = "/usr/lib/libfaketime.so.1"
# Files keep the times that the kernel gave them. The monotonic clock differs as well: with libfaketime 0.9.10
# Python 3.11 can sleep only by one that is faked, too (clock_nanosleep).
VARIABLES = "NO_FAKE_STAT=1"


def elsewhen(skew: str) -> dict[str, str]:
    """The variables that give a program here a clock which differs by `skew`: `+3d`."""
    return {"LD_PRELOAD": str(_library()), "FAKETIME": skew}


@contextmanager
def another_clock(line: Line, host: str, skew: str) -> Iterator[None]:
    """All that pdctl runs on the host has a clock which differs; hosts of a lab share their kernel's."""
    library = base64.b64encode(_library().read_bytes()).decode()
    wrapper = f'#!/bin/sh\nLD_PRELOAD={THERE} FAKETIME={skew} {VARIABLES} exec {PYTHON}.real "$@"\n'
    line.inside(f"echo {library} | base64 -d > {THERE}", host)
    line.inside(f"mv {PYTHON} {PYTHON}.real; printf '%b' '{wrapper}' > {PYTHON}; chmod 755 {PYTHON}", host)
    try:
        yield
    finally:
        line.inside(f"mv {PYTHON}.real {PYTHON}; rm {THERE}", host)


def _library() -> Path:
    """Raises where it is missing: a test that is left out without a word proves nothing."""
    found = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    assert found, "the Debian package libfaketime is missing: make apt-tests"
    return found
