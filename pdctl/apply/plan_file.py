"""A kept plan as a file: written whole or not at all, readable by nobody else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdctl import __version__
from pdctl.apply.look import Look, world_of
from pdctl.errors import ApplyError
from pdctl.plan.sealed import Saved, refuse_other, sealed, text_digest, unsealed
from pdctl.plan.targets import World
from pdctl.state import Key

MAX_BYTES = 1 << 28  # a plan for 1,000 hosts is about 20 MiB


def write_plan(path: Path, document: Mapping[str, Any], seen: Look, spec: Path) -> None:
    """Keep the plan. Raises ApplyError when something else lies at `path`."""
    if path.exists() and not is_plan(path):
        raise ApplyError("exists and is no plan of pdctl", where=str(path), hint="name another file")
    world, keys = _ground(seen)
    about = {"path": str(spec.absolute()), "digest": text_digest(spec.read_bytes())}
    text = json.dumps(sealed(document, world, keys, about, __version__), indent=1, ensure_ascii=False)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def is_plan(path: Path) -> bool:
    """Whether the file says that it is one, of whatever version."""
    try:
        with path.open("rb") as file:
            return b'"format": "pdctl-plan/' in file.read(200)
    except (OSError, ValueError):
        return False


def read_plan(path: Path) -> Saved:
    """Raises ApplyError for a plan that was changed, of another version, or whose spec is another by now."""
    with path.open("rb") as file:
        text = file.read(MAX_BYTES)
    try:
        saved = unsealed(json.loads(text), str(path))
    except (ValueError, KeyError, TypeError) as error:
        raise ApplyError(f"is no plan of pdctl: {error}", where=str(path)) from None
    hint = f"make a new one: pdctl diff --out {path}"
    if saved.pdctl != __version__:
        raise ApplyError(
            f"was made by pdctl {saved.pdctl}; this is {__version__}", where=str(path), hint=hint
        )
    try:
        digest = text_digest(Path(saved.spec).read_bytes())
    except OSError as error:
        raise ApplyError(
            f"its spec cannot be read: {saved.spec}: {error.strerror}", where=str(path)
        ) from None
    if digest != saved.digest:
        raise ApplyError(f"{saved.spec} has changed since it was made", where=str(path), hint=hint)
    return saved


def refuse_moved(saved: Saved, document: Mapping[str, Any], seen: Look) -> None:
    """Raises ApplyError, naming what moved, unless the plan made now is the kept one."""
    world, keys = _ground(seen)
    refuse_other(saved, document, world, keys)


def _ground(seen: Look) -> tuple[World, frozenset[Key]]:
    """All that a plan rests on; hosts that were left out have no part in it."""
    world = world_of(seen)
    keys = seen.selection.keys if seen.selection else world.keys
    return world, frozenset(key for key in keys if key.host in seen.seen.facts)
