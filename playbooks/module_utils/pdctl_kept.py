"""Files in the cluster's own folder: each whole or not at all, changed by one program at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator

NEW = ".pdctl-new"  # as everywhere: what an interrupted write leaves beside its target


def write_whole(path: str, data: bytes) -> None:
    """Write beside, sync, rename, sync the folder. A full disk leaves what was there before."""
    new = path + NEW
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    try:
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.rename(new, path)
        sync(os.path.dirname(path))
    except OSError as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        raise OSError(error.errno, error.strerror, path) from None


def make_folder(path: str) -> None:
    """For root alone; its parents, if it has to make them, for all to see, as those of the record."""
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


def remove(path: str) -> None:
    """Whatever it is."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


@contextlib.contextmanager
def alone(folder: str) -> Iterator[None]:
    """One program at a time, for the moment it takes to read and write; the folder is made if need be."""
    handle = opened(folder)
    while not is_same(folder, handle):
        os.close(handle)
        handle = opened(folder)
    try:
        yield
    finally:
        os.close(handle)


def opened(folder: str) -> int:
    """The folder, locked: nothing to create, and freed when the program ends, however it does."""
    make_folder(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def is_same(folder: str, handle: int) -> bool:
    """False: the program before this one has removed the folder that was waited for."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.stat(folder), os.fstat(handle))
    return False


def sync(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
