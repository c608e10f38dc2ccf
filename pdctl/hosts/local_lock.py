"""One pdctl at a time per cluster on this machine; on a host one module call at a time excludes another."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pdctl.errors import LockError
from pdctl.hosts.control_path import clear_places


@contextmanager
def local_lock(cluster: str) -> Iterator[None]:
    """Held until the end of the block, or of the process: the kernel frees it. Raises LockError if taken.

    What a killed pdctl left in temporary places goes.
    """
    folder = state_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{cluster}.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(cluster, path) from None
        file.truncate(0)
        # The file stays: removing it would let two processes lock two files of the same name.
        json.dump({"pid": os.getpid(), "command": shlex.join(sys.argv)}, file)
        file.flush()
        clear_places()
        yield


def state_folder() -> Path:
    """Where pdctl keeps what is about this machine alone (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".local/state") / "pdctl"


def _taken(cluster: str, path: Path) -> LockError:
    try:
        holder = json.loads(path.read_text())
        who = f"process {holder['pid']}, `{holder['command']}`"
        hint = f"wait for it, or look at it: ps -fp {holder['pid']}"
    except (ValueError, KeyError):  # it has the lock and has not yet said who it is
        who, hint = "another process", f"fuser {path}"
    return LockError(f"another pdctl works on `{cluster}`: {who}", hint=hint)
