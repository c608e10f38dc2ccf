"""The cluster's own folder on this host -> lock, generations, and what was cut off."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time

from ansible.module_utils.pdctl_rows import Row

# Beside the record:
LOCK = "lock"  # a folder, so that making it is atomic
OWNER = "owner.json"  # in it
JOURNAL = "journal.jsonl"
GENERATIONS = "generations"  # N.json each
STORE = "store"  # specs, rows and contents of files, by their SHA-256
TAIL_BYTES = 65536  # of the journal: its last entry and more
COMPLETE = "complete"
# What a controller is told of a generation; the rest of its file is for this host alone.
TOLD = ("number", "state", "at", "by", "pdctl", "what", "command", "digest", "venvs", "restores", "spec")


def kept_state(record: str, notes: list[str]) -> Row:
    """The part of the probe's answer that is about applies: `lock`, `generations`, `journal`, `spec_text`."""
    folder = os.path.dirname(record)
    found = generations(folder, notes)
    return {
        "lock": lock_owner(folder),
        "generations": [told(row) for row in found],
        "journal": last_entry(folder),
        "spec_text": newest_spec(folder, found, notes),
        "mark": mark(record, found),
    }


def lock_owner(folder: str) -> Row | None:
    """Who holds the lock, with its age by this host's clock; a lock folder without an owner is nobody's."""
    path = os.path.join(folder, LOCK, OWNER)
    try:
        with open(path, encoding="utf-8") as handle:
            text = handle.read()
            since = os.fstat(handle.fileno()).st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None
    unknown = {"token": "", "by": "somebody", "command": f"unknown, see {path}"}
    try:
        owner = dict(json.loads(text))
    except (ValueError, TypeError):  # pdctl renames it into place whole: somebody else wrote this one
        owner = {}
    return {**unknown, **owner, "age_s": max(0.0, time.time() - since)}


def generations(folder: str, notes: list[str]) -> list[Row]:
    """The generations that are kept here, oldest first; one that cannot be read is told and left out."""
    try:
        names = os.listdir(os.path.join(folder, GENERATIONS))
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        if re.fullmatch(r"[0-9]+\.json", name):
            path = os.path.join(folder, GENERATIONS, name)
            try:
                with open(path, encoding="utf-8") as handle:
                    row = json.load(handle)
                found.append(dict(row, number=int(row["number"]), begun=float(row["begun"])))
            except (ValueError, KeyError, TypeError) as error:
                notes.append(f"{path} is left out: {error}")
    return sorted(found, key=lambda row: int(row["number"]))


def told(row: Row) -> Row:
    """Ages instead of times: only this host's clock made them."""
    return dict({name: row[name] for name in TOLD if name in row}, age_s=max(0.0, time.time() - row["begun"]))


def last_entry(folder: str) -> Row | None:
    """The last whole line of the journal; a line that a power cut has torn is none."""
    try:
        with open(os.path.join(folder, JOURNAL), "rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - TAIL_BYTES))
            lines = handle.read().split(b"\n")
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        try:
            entry = json.loads(line)
            return dict(entry, age_s=max(0.0, time.time() - float(entry["time"])))
        except (ValueError, KeyError, TypeError):
            continue
    return None


def newest_spec(folder: str, found: list[Row], notes: list[str]) -> Row | None:
    """The spec of the newest complete generation: what a new one is compared with, to tell why."""
    done = [row for row in found if row.get("state") == COMPLETE]
    if not done:
        return None
    try:
        text = stored(folder, done[-1]["spec"]).decode("utf-8", "replace")
    except OSError as error:
        notes.append(f"{error.filename}: {error.strerror}")
        return None
    return {"number": done[-1]["number"], "text": text}


def stored(folder: str, digest: str) -> bytes:
    with open(os.path.join(folder, STORE, os.path.basename(digest)), "rb") as handle:
        return handle.read()


def mark(record: str, found: list[Row]) -> str:
    """Changes with every apply that does anything here: a plan holds as long as it is the same."""
    try:
        with open(record, "rb") as handle:
            text = handle.read()
    except FileNotFoundError:
        text = b""
    newest = found[-1]["number"] if found else 0
    return f"{hashlib.sha256(text).hexdigest()}:{newest}"
