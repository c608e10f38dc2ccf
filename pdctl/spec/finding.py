"""What is wrong in a spec: a Finding names a key path, a Problem the place in the text."""

from __future__ import annotations

from typing import NamedTuple

Path = tuple[str | int, ...]


class Finding(NamedTuple):
    """Something that `rule` found at `path`; `on_key` points at the key instead of its value."""

    rule: str  # an id of rules.table, which knows the severity
    path: Path
    message: str
    hint: str | None = None
    on_key: bool = False


class Problem(NamedTuple):
    """Something that `rule` found at `offset` of the text."""

    rule: str
    offset: int
    path: Path
    message: str
    hint: str | None = None
