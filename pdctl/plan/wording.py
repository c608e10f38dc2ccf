"""A changed field of the spec -> how it is told: `serving.decoders.max_num_seqs 64 -> 128` and its line."""

from __future__ import annotations

import json
from typing import Any

from pdctl.plan.text import MASK, SECRET_NAME, mask
from pdctl.spec.changes import Absent, Field
from pdctl.spec.finding import Path
from pdctl.spec.load import Reading
from pdctl.spec.locate import find, written
from pdctl.spec.secrecy import mask as mask_tokens

LONGEST = 40  # characters of a value


def worded(field: Field, reading: Reading) -> tuple[str, str, str]:
    """Its name, where it stands (`cluster.yaml:31`), and the change in words."""
    name = named(field.path)
    if field.after is Absent.ABSENT or field.before is Absent.ABSENT:
        change = "removed" if field.after is Absent.ABSENT else f"added{_new(field)}"
    elif field.path == ("hosts",):
        change = "in another order"
    elif _long(field.before) or _long(field.after):
        change = f"{_counted(field.before)} -> {_counted(field.after)}"
    else:
        change = f"{_shown(field.path, field.before)} -> {_shown(field.path, field.after)}"
    return name, line_of(reading, field.path), f"{name} {change}"


def named(path: Path) -> str:
    """`hosts[gpu02].gpus.count`"""
    if path[:1] == ("hosts",) and len(path) > 1:
        rest = written(path[2:])
        return f"hosts[{path[1]}]" + (f".{rest}" if rest else "")
    return written(path)


def line_of(reading: Reading, path: Path) -> str:
    """The line on which the spec says it, or on which the nearest section around it begins."""
    found = find(reading.text.root, _indexed(reading, path))
    return f"{reading.text.source.name}:{reading.text.source.line(found.key_offset)}"


def _indexed(reading: Reading, path: Path) -> Path:
    if path[:1] != ("hosts",) or len(path) < 2:
        return path
    names = [host.name for host in reading.cluster.hosts]
    return ("hosts", names.index(str(path[1])), *path[2:]) if path[1] in names else ("hosts",)


def _new(field: Field) -> str:
    return "" if isinstance(field.after, dict | list) else f": {_shown(field.path, field.after)}"


def _long(value: Any) -> bool:
    return isinstance(value, dict | list) and len(json.dumps(value, ensure_ascii=False)) > LONGEST


def _counted(value: Any) -> str:
    if not isinstance(value, dict | list):
        return "unset" if value is None else "set"
    count = len(value) if isinstance(value, list) else sum(v is not None for v in value.values())
    return f"{count} {'entry' if count == 1 else 'entries'}"


def _shown(path: Path, value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    hidden = mask_tokens(mask(text))
    if SECRET_NAME.search(f"{path[-1]}={text}"):
        hidden = MASK
    clipped = hidden if len(hidden) <= LONGEST else f"{hidden[: LONGEST - 3]}..."
    return (clipped if clipped.isprintable() else ascii(clipped)[1:-1]) or '""'
