"""The lock of one cluster on this host: a folder that appears whole, with its owner in it."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil

from ansible.module_utils.pdctl_kept import make_folder, remove, sync, write_whole
from ansible.module_utils.pdctl_observe_generations import GENERATIONS, LOCK, OWNER, STORE, lock_owner
from ansible.module_utils.pdctl_rows import Row


def take(folder: str, owner: Row) -> None:
    """It is ours after that, whoever had it before; the caller is alone in the folder and has asked."""
    text = json.dumps(owner, indent=1).encode() + b"\n"
    if lock_owner(folder):
        write_whole(os.path.join(folder, LOCK, OWNER), text)
        return
    clear_halves(folder)
    half = os.path.join(folder, LOCK + "." + owner["token"])
    make_folder(half)
    try:
        write_whole(os.path.join(half, OWNER), text)
        os.rename(half, os.path.join(folder, LOCK))
        sync(folder)
    finally:
        shutil.rmtree(half, ignore_errors=True)  # there only if that failed


def give_back(folder: str, token: str) -> Row | None:
    """None when nobody has it now, else the other one who has it."""
    held = lock_owner(folder)
    if held and held["token"] != token:
        return held
    remove(os.path.join(folder, LOCK))
    return None


def clear_halves(folder: str) -> None:
    """What a program that was killed in the middle of `take` has left, an empty lock folder included."""
    for path in glob.glob(os.path.join(glob.escape(folder), LOCK + ".*")):
        shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(folder, LOCK))


def leave_as_found(folder: str) -> None:
    """The folder, those in it and the one above it, if nothing is in them any more."""
    inside = [os.path.join(folder, name) for name in (GENERATIONS, STORE)]
    for path in (*inside, folder, os.path.dirname(folder)):
        with contextlib.suppress(OSError):
            os.rmdir(path)
