"""Sound specs with one value, one key more or one key less at a time."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pdctl.spec.compose import compose
from pdctl.spec.examples import EXAMPLES
from pdctl.spec.locate import plain
from pdctl.spec.source import source

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "tests" / "cases" / "spec").glob("*.yml"))
SOUND = [case for case in CASES if not case.with_suffix(".err").exists()]
REAL = [path.read_text() for path in (*sorted(ROOT.glob("inventories/*/cluster.yaml")), *SOUND)]
# One of each kind that a field may get by mistake, and of each form that a text may have.
# fmt: off
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 65536, 10**12, 1.5, "", "x", "X y", "-x", "a\nb", "é", "0", "../x",
    "/a/../x",
    [], [1], ["x"], [[]], {}, {"x": 1}, "x" * 40000, "1.10", "latest", "yes", "10.0.0.1", "10.0.0.256", "a_b",
    "{{ x }}", "fe80::1", "PORT003", "\u202e",
]
# fmt: on
KEYS = ["zz", "HF-TOKEN", "1", ""]
Path_ = tuple[str | int, ...]


def values_of(text: str) -> Any:
    root = compose(source(text, "c.yaml")).root
    return plain(root) if root else None


def mutations(text: str, every: int = 1) -> Iterator[tuple[Path_, Any]]:
    """(where, the whole spec with another value there); of all of them each `every`th."""
    base, count = values_of(text), 0
    for path in paths(base):
        for value in changes(at(base, path)):
            count += 1
            if count % every == 0:
                yield path, put(base, path, value)


def paths(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    if path:
        yield path
    steps: Any = ()
    if isinstance(value, dict | list):
        steps = value if isinstance(value, dict) else range(len(value))
    for step in steps:
        yield from paths(value[step], (*path, step))


def changes(value: Any) -> Iterator[Any]:
    yield from VALUES
    if isinstance(value, dict):
        yield from ({**value, key: next(iter(value.values()), 1)} for key in KEYS)
        yield from ({name: item for name, item in value.items() if name != key} for key in value)


def at(value: Any, path: Path_) -> Any:
    for step in path:
        value = value[step]
    return value


def put(value: Any, path: Path_, new: Any) -> Any:
    if not path:
        return new
    changed = copy.copy(value)
    changed[path[0]] = put(value[path[0]], path[1:], new)
    return changed


__all__ = ["EXAMPLES", "REAL", "mutations", "values_of"]
