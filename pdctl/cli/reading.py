"""The spec's file -> its bytes: a file, or a pipe such as `<(...)`, which gives them once."""

from __future__ import annotations

import os
import select
import stat
import time
from pathlib import Path

from pdctl.errors import SpecError
from pdctl.spec.load import Inspection, contents, inspect, unreadable
from pdctl.spec.source import MAX_BYTES

PATIENCE_S = 30.0  # for all that a pipe's writer has to say; it may log in somewhere first
_PIPES: dict[Path, bytes] = {}  # what came, for whoever asks again


def inspected(path: Path) -> Inspection:
    """All that is wrong with the file; one that cannot be read is an error like any other."""
    try:
        return inspect(spec_bytes(path), str(path))
    except SpecError as error:
        return Inspection(str(path), (error,))


def spec_bytes(path: Path, patience_s: float = PATIENCE_S) -> bytes:
    """One byte more than is allowed at most. Raises SpecError where nothing can be read in time."""
    if path in _PIPES:
        return _PIPES[path]
    if not _flows(path):
        return contents(path)
    _PIPES[path] = found = _drained(path, patience_s)
    return found


def _flows(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # `contents` says why
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _drained(path: Path, patience_s: float) -> bytes:
    """Opened without waiting for a writer, and read until it closes, there is too much, or time is up."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(path, f"cannot be read: {error.strerror}") from None
    found = bytearray()
    try:
        poll, end = select.poll(), time.monotonic() + patience_s
        poll.register(handle, select.POLLIN)
        while len(found) <= MAX_BYTES:
            left = end - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise unreadable(path, f"is a pipe whose writer has not ended within {patience_s:g} s")
            more = os.read(handle, MAX_BYTES + 1 - len(found))
            if not more:
                break
            found += more
    except OSError as error:
        raise unreadable(path, f"cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)
    return bytes(found)
