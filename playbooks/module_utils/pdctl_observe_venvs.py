"""Venv rows -> rows as they are on disk: the installer's marker, and every file held against its manifest."""

from __future__ import annotations

import json
import os

from ansible.module_utils.pdctl_rows import Row

MARKER = ".pdctl-venv.json"
SHOWN = 5
COUNTED_WHEN_ADDED = (".py", ".so", ".pth")  # an added file of these kinds changes what Python imports


def observe_venv(row: Row) -> Row | None:
    """Always walked, never cached: a stat of each file, about 0.3 s for 60,000."""
    path = row["path"]
    if not os.path.isdir(path):
        return None
    seen = {"kind": "venv", "path": path, "digest": "", "python": "", "damage": ["incomplete"], "proof": ""}
    try:
        with open(os.path.join(path, MARKER), encoding="utf-8") as handle:
            marker = json.load(handle)
        seen.update(digest=marker["digest"], python=marker["python"])
        seen["damage"] = shown(damage(path, marker["manifest"]))
        seen["proof"] = held(marker.get("proofs") or [], row.get("proof") or "")
    except (FileNotFoundError, ValueError, KeyError):
        return seen
    return seen


def held(proofs: list[str], asked: str) -> str:
    """The one that is asked for, when it has been held; else the last of those that have been."""
    return asked if asked in proofs else (proofs or [""])[-1]


def damage(path: str, manifest: dict[str, str]) -> list[str]:
    """Names of files that are missing, changed, or added where that matters."""
    now = scan(path)
    names: list[str] = []
    for folder in sorted(manifest.keys() | now.keys()):
        was, is_ = manifest.get(folder, ""), now.get(folder, "")
        if was != is_:
            names += [os.path.join(folder, name) for name in _differing(_entries(was), _entries(is_))]
    if not os.path.exists(os.path.join(path, "bin", "python")) and "bin/python" not in names:
        names.insert(0, "bin/python (its interpreter is gone)")
    return names


def scan(path: str) -> dict[str, str]:
    """{folder: one "size mtime_ns name" line per file}: one text per folder compares, and parses, quickly.

    Byte code is left out: Python may rewrite it, and refuses it when its source changed.
    """
    found: dict[str, str] = {}
    todo = [""]
    while todo:
        folder = todo.pop()
        lines = []
        with os.scandir(os.path.join(path, folder) if folder else path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        todo.append(os.path.join(folder, entry.name))
                elif not entry.name.endswith(".pyc") and entry.name != MARKER:
                    info = entry.stat(follow_symlinks=False)
                    lines.append(f"{info.st_size} {info.st_mtime_ns} {entry.name}")
        if lines:
            found[folder] = "\n".join(sorted(lines))
    return found


def shown(names: list[str]) -> list[str]:
    rest = len(names) - SHOWN
    return names[:SHOWN] + ([f"and {rest} more"] if rest > 0 else [])


def _entries(text: str) -> dict[str, tuple[str, str]]:
    lines = [line.split(" ", 2) for line in text.split("\n")] if text else []
    return {name: (size, mtime) for size, mtime, name in lines}


def _differing(was: dict[str, tuple[str, str]], now: dict[str, tuple[str, str]]) -> list[str]:
    return sorted(
        name
        for name in was.keys() | now.keys()
        if was.get(name) != now.get(name) and (name in was or name.endswith(COUNTED_WHEN_ADDED))
    )
