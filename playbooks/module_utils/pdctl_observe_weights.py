"""Rows of weights -> rows as they are on disk: held against the last check, or by their own index."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from ansible.module_utils.pdctl_rows import Row

CHECKED = "/opt/pdctl/models/checked"  # what was read and found right, beside what it tells of
SHOWN = 5
INDEX = "model.safetensors.index.json"
HEADER_MAX = 100_000_000  # safetensors' own bound for its header (safetensors 0.5, tensor.rs)
OTHERS = (".bin", ".pt", ".pth", ".gguf")


def observe_weights(row: Row) -> Row | None:
    """A stat of each file; those of no check (`model.path`) by their headers."""
    path = row["path"]
    if not os.path.exists(path):
        return None
    marker = read_marker(marker_path(row)) or last_marker(row)
    seen = {"kind": "weights", "path": path, "revision": row.get("revision") or "", "damage": []}
    seen.update(repo=row.get("repo") or "", given=bool(row.get("given")))
    if marker is None:
        seen["damage"] = ["not checked yet"]
    else:
        seen.update(revision=marker["revision"], damage=shown(moved(marker)))
    return seen


def marker_path(row: Row) -> str:
    name = hashlib.sha256(f"{row['path']}@{row.get('revision') or ''}".encode()).hexdigest()[:16]
    base = os.path.basename(row["path"].rstrip("/"))
    return os.path.join(row.get("checked") or CHECKED, f"{base}-{name}.json")


def last_marker(row: Row) -> Row | None:
    """The revision that was checked last, when it is not the one that is asked for."""
    folder, name = os.path.split(marker_path(row))
    start = name.rpartition("-")[0] + "-"
    names = [each for each in os.listdir(folder) if each.startswith(start)] if os.path.isdir(folder) else []
    paths = sorted((os.path.join(folder, each) for each in names), key=os.path.getmtime, reverse=True)
    found = [marker for marker in map(read_marker, paths) if marker and marker["path"] == row["path"]]
    return found[0] if found else None


def read_marker(path: str) -> Row | None:
    try:
        with open(path, encoding="utf-8") as handle:
            marker = dict(json.load(handle))
        texts = all(isinstance(marker[name], str) for name in ("folder", "path", "revision"))
        return marker if texts and isinstance(marker["files"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def moved(marker: Row) -> list[str]:
    """Names of files that are not as they were when they were read."""
    found = []
    for name, (size, mtime) in sorted(marker["files"].items()):
        try:
            info = os.stat(os.path.join(marker["folder"], name))
        except OSError:
            found.append(f"{name} is gone")
            continue
        if (info.st_size, info.st_mtime_ns) != (size, mtime):
            found.append(f"{name} was changed")
    return found


def structure(path: str) -> list[str]:
    """What a folder with a model lacks, as far as its own files tell; one file (GGUF) is a model, too."""
    if os.path.isfile(path):
        return []
    try:
        names = os.listdir(path)
    except OSError as error:
        return [f"it cannot be read: {error.strerror}"]
    # Mistral's own format has the other one (vLLM transformers_utils/config.py).
    wrong = [] if {"config.json", "params.json"} & set(names) else ["config.json is missing"]
    tensors = sorted(name for name in names if name.endswith(".safetensors"))
    if INDEX in names:
        tensors = listed(os.path.join(path, INDEX))
        if not tensors:
            return [*wrong, f"{INDEX} cannot be read"]
    elif not tensors and not any(name.endswith(OTHERS) for name in names):
        wrong.append("it holds no weights")
    for name in tensors:
        wrong += cut_short(os.path.join(path, name), name)
    return wrong


def listed(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as handle:
            return sorted({str(name) for name in json.load(handle)["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def cut_short(path: str, name: str) -> list[str]:
    """The header says how long a file of tensors must be (safetensors: 8 bytes length, JSON, data)."""
    try:
        with open(path, "rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            length = int.from_bytes(handle.read(8), "little")
            header = json.loads(handle.read(length)) if 0 < length <= min(size, HEADER_MAX) else None
        whole = 8 + length + max((end_of(entry) for entry in (header or {}).values()), default=0)
    except FileNotFoundError:
        return [f"{name} is missing"]
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return [f"{name} cannot be read"]
    if header is None:
        return [f"{name} is cut short"]
    return [] if size == whole else [f"{name} has {size} bytes, its header says {whole}"]


def end_of(entry: Any) -> int:
    return int(entry["data_offsets"][1]) if "data_offsets" in entry else 0


def shown(names: list[str]) -> list[str]:
    rest = len(names) - SHOWN
    return names[:SHOWN] + ([f"and {rest} more"] if rest > 0 else [])
