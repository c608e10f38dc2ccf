"""What is wrong in a spec: a Finding names a key path, a Problem the place in the text."""

from __future__ import annotations

from typing import Literal, NamedTuple

Path = tuple[str | int, ...]
Severity = Literal["error", "warning"]


class Finding(NamedTuple):
    """Something wrong at `path`; `on_key` points at the key instead of its value."""

    path: Path
    message: str
    hint: str | None = None
    severity: Severity = "error"
    on_key: bool = False


class Problem(NamedTuple):
    """Something wrong at `offset` of the text."""

    offset: int
    path: Path
    message: str
    hint: str | None = None
    severity: Severity = "error"
