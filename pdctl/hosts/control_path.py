"""A short private folder for ssh's control sockets, and the end of the connections behind them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# sun_path holds 108 bytes with its NUL (unix(7)). ssh binds `PATH.` and 16 random characters, then renames it
# (OpenSSH mux.c); Ansible's own name for a connection is 10 characters (plugins/connection/ssh.py).
LIMIT = 104
NAME = 10
SUFFIX = 17


@contextmanager
def private_folder() -> Iterator[Path]:
    """For one run: mode 0700, in the shortest usable place, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pdctl-", dir=_parent()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fits(folder: Path) -> bool:
    """Whether ssh can bind its sockets in `folder`."""
    return len(os.fsencode(folder)) + 1 + NAME + SUFFIX < LIMIT


def end_masters(folder: Path) -> None:
    """Ask each ssh that waits behind a socket in `folder` to leave; it would stay for ControlPersist."""
    asked = [
        subprocess.Popen(
            ["ssh", "-F", "/dev/null", "-O", "exit", "-o", f"ControlPath={socket}", "any"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for socket in (folder.iterdir() if folder.is_dir() else ())
    ]
    for process in asked:
        process.wait()


def _parent() -> str | None:
    """The usual place for temporary files, unless its name is too long for a socket and /tmp's is not."""
    usual = Path(tempfile.gettempdir())
    longest = usual / ("pdctl-" + "x" * 8) / "cp"
    return None if fits(longest) or not os.access("/tmp", os.W_OK) else "/tmp"
