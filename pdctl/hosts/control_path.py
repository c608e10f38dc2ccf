"""A short private folder for ssh's control sockets, and the end of the connections behind them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
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
CONTROL = "cp"  # the folder for sockets in a private folder
PRIVATE = "pdctl-"
PID_MAX = 1 << 22  # Linux's largest (proc(5), kernel.pid_max)


@contextmanager
def private_folder() -> Iterator[Path]:
    """For one run: mode 0700, in the shortest usable place, removed at the end.

    It is held by a lock, and named after its process for the moment before it has one.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{PRIVATE}{os.getpid()}-", dir=_parent()))
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def clear_places() -> None:
    """Where private folders are made now."""
    remove_left(_parent())


def remove_left(parent: Path) -> None:
    """Private folders of this user whose process is gone, and the ssh connections behind their sockets."""
    for folder in parent.glob(f"{PRIVATE}*"):
        pid = folder.name.removeprefix(PRIVATE).split("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):  # not ours, held after all, or just removed by another
                _remove_unheld(folder)


def _remove_unheld(folder: Path) -> None:
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        info = os.fstat(held)
        if info.st_uid == os.geteuid() and not stat.S_IMODE(info.st_mode) & 0o077:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end_masters(folder / CONTROL)
            shutil.rmtree(folder)
    finally:
        os.close(held)


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


def _parent() -> Path:
    """The usual place for temporary files, unless its name is too long for a socket and /tmp's is not."""
    usual = Path(tempfile.gettempdir())
    longest = usual / f"{PRIVATE}{PID_MAX}-xxxxxxxx" / CONTROL
    return usual if fits(longest) or not os.access("/tmp", os.W_OK) else Path("/tmp")
