"""A lock that is named where a spec could be -> whether it is whole, without its spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from pdctl.cli.reading import spec_bytes
from pdctl.errors import SpecError
from pdctl.knowledge.locks import is_lock
from pdctl.parts.cluster_lock import FORMAT, ClusterLock, read_lock


def lock_alone(path: Path) -> ClusterLock | None:
    """None where the file is no lock. Raises SpecError (LOCK001) where it is one, and damaged."""
    try:
        text = spec_bytes(path).decode(errors="replace")
    except SpecError:
        return None
    return read_lock(path) if is_lock(text) else None


def tell_alone(path: Path, lock: ClusterLock, json: bool) -> None:
    if not json:
        typer.echo("\n".join(_lines(path, lock)))
        return
    from pdctl.views.console import print_json

    print_json({"format": FORMAT, "file": str(path), **_document(lock)})


def _spec_of(path: Path) -> Path:
    """The spec that it belongs to, by its name."""
    other = path.with_suffix(".yml")
    return other if other.exists() else path.with_suffix(".yaml")


def _lines(path: Path, lock: ClusterLock) -> list[str]:
    held = [
        f"{_some(len(each.entries), 'wheel')} of {name} {python}"
        for (name, python), each in _environments(lock)
    ]
    held += [f"{_some(len(each), 'package')} of {system}" for system, each in sorted(lock.packages.items())]
    of = f" of cluster `{lock.cluster}`" if lock.cluster else ""
    return [
        f"{path} is a whole lock{of}: {', '.join(held) or 'nothing'}",
        f"  `pdctl lock --check {_spec_of(path)}` holds it against its spec",
    ]


def _some(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _document(lock: ClusterLock) -> dict[str, Any]:
    return {
        "whole": True,
        "cluster": lock.cluster,
        "source": dict(lock.source),
        "wheels": {f"{name} {python}": len(each.entries) for (name, python), each in _environments(lock)},
        "packages": {system: len(each) for system, each in sorted(lock.packages.items())},
    }


def _environments(lock: ClusterLock) -> list[Any]:
    return sorted(lock.environments.items(), key=lambda item: item[0])
