"""A lock file held by one process at a time, which may remove it together with its directory."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pdctl.errors import LabError

# Building a base tree took 28 s, and 221 s once on a busy machine: give the one before us that long.
PATIENCE = 600.0


@contextmanager
def locked(
    path: Path, waiting: Callable[[], None] | None = None, patience: float = PATIENCE
) -> Iterator[None]:
    """Hold the lock file `path`, making its directory; call `waiting` once if another process holds it."""
    deadline = time.monotonic() + patience
    while (descriptor := _try(path)) is None:
        if waiting:
            waiting()
            waiting = None
        if time.monotonic() > deadline:
            raise LabError(f"another process holds `{path}`", hint=f"find it with `fuser {path}`")
        time.sleep(0.05)
    try:
        yield
    finally:
        os.close(descriptor)


def _try(path: Path) -> int | None:
    """The locked descriptor; none if another holds the lock, or removed the file while we opened it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # the last holder removed the directory in between
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None
