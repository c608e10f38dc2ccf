"""`pdctl lock`: every exact version of a cluster, resolved once and kept beside the spec."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdctl.cli.alone import lock_alone, tell_alone
from pdctl.cli.finish import Finish
from pdctl.cli.load import judge_without_lock, tell_warnings
from pdctl.cli.options import CLUSTER, Json, Spec
from pdctl.errors import SpecError

if TYPE_CHECKING:
    from pdctl.desired.locking import Wanted
    from pdctl.parts.cluster_lock import ClusterLock
    from pdctl.topology.model import Topology


def register(app: typer.Typer) -> None:
    app.command()(lock)


def lock(
    path: Spec = CLUSTER,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing, ask no index; end with 2 when it is not current.")
    ] = False,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Take the newest versions, also where the old lock's still fit.")
    ] = False,
    json: Json = False,
) -> None:
    """Resolve the spec to exact versions with hashes, and write them into cluster.lock beside it."""
    if check and (alone := lock_alone(path)) is not None:
        tell_alone(path, alone, json)
        return
    judgement = judge_without_lock(path)
    tell_warnings(judgement)
    topology = judgement.sound()

    from pdctl.desired.locking import wanted
    from pdctl.parts.cluster_lock import lock_file

    wants, file = wanted(topology), lock_file(path)
    document = _checked(topology, wants, file) if check else _made(topology, wants, file, upgrade)
    if json:
        from pdctl.views.console import print_json

        print_json({"format": "pdctl-lock/1", "file": str(file), **document})
    else:
        typer.echo("\n".join(_lines(file, document, check)))
    if check and not document["current"]:
        raise Finish(2)


def _checked(topology: Topology, wants: Wanted, file: Path) -> dict[str, Any]:
    from pdctl.desired.locking import moves, stale

    before = _kept(file)
    if before is None:
        return {"current": False, "moved": [], "errors": [f"there is no {file.name}"], "changes": []}
    moved = [moved._asdict() for moved in moves(before, wants)]
    errors = [] if moved else [error.message for error in stale(before, topology, file)]
    return {"current": not moved and not errors, "moved": moved, "errors": errors, "changes": []}


def _made(topology: Topology, wants: Wanted, file: Path, upgrade: bool) -> dict[str, Any]:
    from pdctl.bundle.locking import resolve_lock, write_lock
    from pdctl.desired.locking import changes, moves

    try:
        before = _kept(file)
    except SpecError as error:  # it is about to be replaced
        typer.echo(f"warning: {error}; it is replaced", err=True)
        before = None
    preferred = None if upgrade else before
    now = resolve_lock(topology.cluster, wants, preferred, lambda line: typer.echo(line, err=True))
    write_lock(now, file)
    moved = [moved._asdict() for moved in moves(before, wants)] if before else []
    rows = [change._asdict() for change in changes(before, now)] if before else []
    counts = {f"{name} {python}": len(each.entries) for (name, python), each in now.environments.items()}
    return {"current": True, "moved": moved, "errors": [], "changes": rows, "wheels": counts}


def _kept(file: Path) -> ClusterLock | None:
    from pdctl.parts.cluster_lock import read_lock

    return read_lock(file) if os.path.lexists(file) else None


def _lines(file: Path, document: dict[str, Any], check: bool) -> list[str]:
    if check and document["current"]:
        return [f"{file} is current"]
    rows = [*document["moved"], *document["changes"]]
    told = [f"  {row['name']}: {row['then'] or 'nothing'} -> {row['now'] or 'nothing'}" for row in rows]
    if check:
        return [
            f"{file} is not current; `pdctl lock` makes it anew",
            *(f"  {e}" for e in document["errors"]),
            *told,
        ]
    wheels = ", ".join(f"{count} wheels of {name}" for name, count in document["wheels"].items())
    return [f"Wrote {file}: {wheels}", *told]
