"""Key path -> the field in one of the example specs, as a user would write it."""

from __future__ import annotations

import json
import re
from typing import Any

from pdctl.spec.compose import compose
from pdctl.spec.examples import EXAMPLES
from pdctl.spec.fields import section_at, walk
from pdctl.spec.finding import Path
from pdctl.spec.locate import plain
from pdctl.spec.scalar import resolve
from pdctl.spec.source import source

PLAIN = re.compile(r"[A-Za-z0-9_./~+-]([A-Za-z0-9_./~+ -]*[A-Za-z0-9_./~+-])?")


def example_of(path: str) -> str:
    """The field as YAML under its keys; if need be the same key of another section of its kind."""
    kin = [other for other, _ in walk() if other != path and _owner(other) == _owner(path)]
    for name in (path, *kin):
        for text in EXAMPLES:
            found = _values(text, name)
            if found:
                return _written(path, found[0])
    return ""


def _owner(path: str) -> tuple[Any, str]:
    """The section that holds the key, and the key."""
    inside, _, key = path.rpartition(".")
    steps: Path = tuple(step for name in inside.split(".") if name for step in _steps(name))
    return section_at(steps), key


def _steps(name: str) -> tuple[str | int, ...]:
    return (name.removesuffix("[]"), 0) if name.endswith("[]") else (name,)


def _values(text: str, path: str) -> list[Any]:
    """What stands at `path` in the spec, in the order of the file."""
    root = compose(source(text, "example")).root
    found: list[Any] = [plain(root) if root else None]
    for step in path.split("."):
        name = step.removesuffix("[]")
        held = [value for value in found if isinstance(value, dict)]
        if name == "NAME":
            found = [inner for value in held for inner in value.values()]
        else:
            found = [value[name] for value in held if name in value]
        if step.endswith("[]"):
            found = [item for value in found if isinstance(value, list) for item in value]
    return found


def _written(path: str, value: Any) -> str:
    """`hosts:` and below it `  - gpus: 8`."""
    *outer, last = ["HF_TOKEN" if step == "NAME" else step for step in path.split(".")]
    lines: list[str] = []
    indent, dash = "", ""
    for step in outer:
        lines.append(f"{indent}{dash}{step.removesuffix('[]')}:")
        indent += "  " * (2 if dash else 1)
        dash = "- " if step.endswith("[]") else ""
    return "\n".join([*lines, f"{indent}{dash}{last.removesuffix('[]')}: {_flow(value)}"])


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    if isinstance(value, str) and PLAIN.fullmatch(value) and resolve(value) == value:
        return value
    return json.dumps(value)
