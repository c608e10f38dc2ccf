"""Key path -> the part of the model it names: used to explain, and to say which keys are allowed."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pdctl.spec.finding import Path
from pdctl.spec.model import Cluster
from pdctl.spec.values import Section


def section_at(path: Path) -> type[Section] | None:
    """The section whose keys stand at `path`; None when the model has no section there."""
    current: Any = Cluster
    for step in path:
        current = _inside(current, step)
    return current if _is_section(current) else None


def homes(key: str) -> list[str]:
    """The paths at which the model knows `key`, e.g. `ssh.port`."""
    return [path for path, _ in walk() if path.rpartition(".")[2] == key]


def walk(section: type[Section] = Cluster, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every field of the model: its path (`hosts[].gpus`, `secrets.NAME`) and pydantic's FieldInfo."""
    for name, info in section.model_fields.items():
        path = f"{prefix}{name}"
        yield path, info
        inner, suffix = _unwrap(info.annotation), ""
        while get_origin(inner) in (list, dict):
            suffix += "[]" if get_origin(inner) is list else ".NAME"
            inner = _unwrap(get_args(inner)[-1])
        if _is_section(inner):
            yield from walk(inner, f"{path}{suffix}.")


def _inside(annotation: Any, step: str | int) -> Any:
    inner = _unwrap(annotation)
    if _is_section(inner):
        info = inner.model_fields.get(str(step))
        return _unwrap(info.annotation) if info else None
    if get_origin(inner) in (list, dict):
        return _unwrap(get_args(inner)[-1])
    return None


def _unwrap(annotation: Any) -> Any:
    """Without Annotated and `| None`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, types.UnionType):
            annotation = next(a for a in get_args(annotation) if a is not type(None))
        else:
            return annotation


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)
