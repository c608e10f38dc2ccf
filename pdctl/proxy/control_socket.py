"""A path -> a unix socket that only its owner may connect to, and its removal."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def bound(path: Path) -> socket.socket:
    """A listening socket with mode 0600. One that a killed proxy left behind is replaced, not one in use."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    before = os.umask(0o177)  # from its first moment on, and nobody else runs in between
    try:
        if is_abandoned(path):
            path.unlink()
        sock.bind(str(path))
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(before)
    return sock


def is_abandoned(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


class Place:
    """The path of a socket of ours, for as long as it is ours."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = inode(path)

    def clear(self) -> None:
        """Another proxy may listen there by now."""
        if self._inode is not None and inode(self._path) == self._inode:
            self._path.unlink()


def inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
