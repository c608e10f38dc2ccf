"""The cluster's own folder on this host -> lock, generations, and what was cut off."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import time

from ansible.module_utils.pdctl_rows import Row
from ansible.module_utils.pdctl_shapes import (
    ENTRY_MAY,
    ENTRY_MUST,
    LOCK_MAY,
    LOCK_MUST,
    MANIFEST_MAY,
    MANIFEST_MUST,
    Broken,
    shaped,
)

AT_WORK = "/var/lib"  # what pdctl_host_lock.py locks; this program comes without it
# Beside the record:
LOCK = "lock"  # a folder, so that making it is atomic
OWNER = "owner.json"  # in it
JOURNAL = "journal.jsonl"
GENERATIONS = "generations"  # N.json each
STORE = "store"  # specs, rows and contents of files, by their SHA-256
TAIL_BYTES = 65536  # of the journal: its last entry and more
COMPLETE, BROKEN = "complete", "broken"
# What a controller is told of a generation; the rest of its file is for this host alone.
TOLD = (
    "number",
    "state",
    "at",
    "by",
    "pdctl",
    "what",
    "command",
    "digest",
    "venvs",
    "restores",
    "spec",
    "life",
)


def kept_state(record: str) -> Row:
    """The part of the probe's answer that is about applies; `broken` are files that say nothing, and why."""
    folder = os.path.dirname(record)
    broken: list[str] = []
    found = generations(folder)
    broken += [row["what"] for row in found if row["state"] == BROKEN]
    entry = last_entry(folder, broken)
    others = others_at_work(folder) if is_busy() else None
    return {
        "lock": lock_owner(folder),
        "generations": [told(row) for row in found],
        "journal": entry,
        "spec_text": newest_spec(folder, found, broken),
        "mark": mark(record, found),
        "broken": broken,
        "busy": is_ours(others, entry),
        "others": others or [],
    }


def is_busy(place: str = AT_WORK) -> bool:
    """Whether a module is at work: that of an apply that was killed runs on until its own work is done."""
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


def others_at_work(folder: str) -> list[Row]:
    """Other clusters whose lock is held on this host: one of them is at work while a module is."""
    place, own = os.path.split(folder)
    rows = []
    for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
        owner = lock_owner(os.path.join(place, name)) if name != own else None
        if owner:
            rows.append({"cluster": name, **{field: owner[field] for field in ("by", "command", "age_s")}})
    return rows


def is_ours(others: list[Row] | None, entry: Row | None) -> bool:
    """Whether the module at work is one of this cluster; none is where `others` is None. It is where it is
    nobody else's, and may be where the journal tells of a step that has not ended, whatever others do."""
    return others is not None and (not others or (entry is not None and entry["event"] == "begin"))


def lock_owner(folder: str) -> Row | None:
    """Who holds the lock, with its age by this host's clock. An empty lock folder is nobody's; whatever else
    lies there is a lock of somebody unknown, which `pdctl unlock` removes."""
    lock = os.path.join(folder, LOCK)
    path = os.path.join(lock, OWNER)
    try:
        data = read(path)
        since = os.stat(path).st_mtime
        owner = shaped(data, LOCK_MUST, LOCK_MAY)
    except (Broken, OSError) as error:
        if is_nobodys(lock):
            return None
        since = os.lstat(lock).st_mtime
        owner = {"token": "", "by": "somebody", "command": f"unknown, {path}: {told_why(error)}"}
    return {**owner, "age_s": max(0.0, time.time() - since)}


def is_nobodys(lock: str) -> bool:
    try:
        return not os.listdir(lock)
    except FileNotFoundError:
        return not os.path.islink(lock)
    except NotADirectoryError:
        return not os.path.lexists(lock)


def generations(folder: str) -> list[Row]:
    """The generations that are kept here, oldest first; of a broken one only its number and why."""
    try:
        names = os.listdir(os.path.join(folder, GENERATIONS))
    except FileNotFoundError:
        return []
    numbers = sorted(int(name[:-5]) for name in names if re.fullmatch(r"(0|[1-9][0-9]{0,17})\.json", name))
    rows = [read_manifest(os.path.join(folder, GENERATIONS, f"{number}.json"), number) for number in numbers]
    return [row for row in rows if row]


def read_manifest(path: str, number: int) -> Row | None:
    """None when it has gone meanwhile."""
    try:
        row = shaped(read(path), MANIFEST_MUST, MANIFEST_MAY)
        if row["number"] != number:
            raise Broken(f"it says that it is generation {row['number']}")
        return row
    except (Broken, OSError) as error:
        if not os.path.lexists(path):
            return None
        why = f"{path}: {told_why(error)}"
        return {"number": number, "state": BROKEN, "what": why, "begun": os.lstat(path).st_mtime}


def read(path: str) -> bytes:
    """A login that is not root learns of that, not of broken files: so that is raised."""
    with open(path, "rb") as handle:
        return handle.read()


def told_why(error: Exception) -> str:
    if isinstance(error, PermissionError):
        raise error
    return str(error.strerror or error) if isinstance(error, OSError) else str(error)


def told(row: Row) -> Row:
    """Ages instead of times: only this host's clock made them."""
    return dict({name: row[name] for name in TOLD if name in row}, age_s=max(0.0, time.time() - row["begun"]))


def last_entry(folder: str, broken: list[str]) -> Row | None:
    """The last whole line of the journal; a line that a power cut has torn is none."""
    path = os.path.join(folder, JOURNAL)
    try:
        with open(path, "rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - TAIL_BYTES))
            lines = handle.read().split(b"\n")[size > TAIL_BYTES : -1]
    except FileNotFoundError:
        return None
    except OSError as error:
        broken.append(f"{path}: {told_why(error)}")
        return None
    found: Row | None = None
    why: list[str] = []
    for line in reversed(lines):
        try:
            entry = shaped(line, ENTRY_MUST, ENTRY_MAY)
            found = dict(entry, age_s=max(0.0, time.time() - float(entry["time"])))
            break
        except Broken as error:
            why += [f"{path}: its last line cannot be used: {error}"] if line else []
    broken += why[:1]
    return found


def newest_spec(folder: str, found: list[Row], broken: list[str]) -> Row | None:
    """The spec of the newest complete generation: what a new one is compared with, to tell why."""
    done = [row for row in found if row["state"] == COMPLETE]
    if not done:
        return None
    try:
        text = stored(folder, done[-1]["spec"]).decode("utf-8", "replace")
    except OSError as error:
        broken.append(f"{error.filename}: {told_why(error)}")
        return None
    return {"number": done[-1]["number"], "text": text, "lock": done[-1].get("lock", "")}


def stored(folder: str, digest: str) -> bytes:
    """What was kept under that name, and nothing else. Raises OSError with the path."""
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise OSError(errno.EINVAL, f"nothing there is named {digest!r}", os.path.join(folder, STORE))
    path = os.path.join(folder, STORE, digest)
    data = read(path)
    if hashlib.sha256(data).hexdigest() != digest:
        raise OSError(errno.EINVAL, "it is damaged: its SHA-256 is not its name", path)
    return data


def mark(record: str, found: list[Row]) -> str:
    """Changes with every apply that does anything here: a plan holds as long as it is the same."""
    try:
        with open(record, "rb") as handle:
            text = handle.read()
    except FileNotFoundError:
        text = b""
    newest = found[-1]["number"] if found else 0
    return f"{hashlib.sha256(text).hexdigest()}:{newest}"
