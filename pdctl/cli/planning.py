"""Spec and targets -> a look, its plan, and all that is told about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pdctl.apply.look import Look
    from pdctl.hosts.sessions import Sessions
    from pdctl.plan.document import Details
    from pdctl.plan.sealed import Saved
    from pdctl.plan.targets import Targets
    from pdctl.spec.load import Reading
    from pdctl.topology.model import Topology

OnHost = Annotated[
    list[str], typer.Option("--host", metavar="NAME", help="Only what is on this host; repeatable.")
]
OfRole = Annotated[
    list[str],
    typer.Option(
        "--role",
        metavar="NAME",
        help="Only instances of this role: prefiller, decoder, server, proxy; repeatable.",
    ),
]
OfInstance = Annotated[
    list[str],
    typer.Option("--instance", metavar="NAME", help="Only this instance, e.g. decoder-1; repeatable."),
]
OfLayer = Annotated[
    list[str],
    typer.Option(
        "--layer",
        metavar="NAME",
        help="Only this layer: base, packages, runtime, model, config, units; repeatable.",
    ),
]


@dataclass(frozen=True)
class Planned:
    seen: Look
    details: Details
    document: dict[str, Any]


def planned(
    topology: Topology,
    reading: Reading,
    folder: Path,
    targets: Targets,
    sessions: Sessions | None = None,
    *,
    drift_only: bool = False,
) -> Planned:
    """Look at the hosts, and say what would be done within `targets`, and why.

    With `sessions`, to do it: once nothing is at work there any more.
    """
    from pdctl.apply.account import account
    from pdctl.apply.look import look, world_of
    from pdctl.apply.quiet import changed_hosts, when_quiet
    from pdctl.cli.carry import say
    from pdctl.plan.agreement import refuse_split
    from pdctl.plan.document import plan_document
    from pdctl.plan.left_out import refuse_left_out

    def looked() -> Look:
        return look(topology, folder, sessions=sessions, targets=targets or None)

    seen = when_quiet(looked, lambda seen: seen.seen.kept, say, changed_hosts) if sessions else looked()
    details = account(seen, reading)
    if seen.selection:
        refuse_split(topology.cluster, seen.selection, world_of(seen), details.reasons)
    if not drift_only:
        refuse_left_out(topology, seen.plan, seen.desired, seen.seen.contents, details.reasons)
    return Planned(seen, details, plan_document(seen.plan, details))


def targets_of(hosts: list[str], roles: list[str], instances: list[str], layers: list[str]) -> Targets:
    from pdctl.plan.targets import Targets

    return Targets(*(tuple(dict.fromkeys(names)) for names in (hosts, roles, instances, layers)))


def kept_plan(path: Path, targets: Targets) -> Saved | None:
    """The plan at `path`; None when that is a spec. Raises ApplyError when it cannot be carried out."""
    from pdctl.apply.plan_file import is_plan, read_plan
    from pdctl.errors import ApplyError

    if not is_plan(path):
        return None
    saved = read_plan(path)
    if targets:
        raise ApplyError("a kept plan has its own targets", where=str(path), hint="leave them out here")
    return saved


def resting(seen: Look) -> list[str]:
    """Instances outside the targets that do not run: without them nothing can be proven."""
    from pdctl.state import Unit

    chosen = seen.selection.keys if seen.selection else frozenset()
    found: Iterable[str] = (
        unit.instance
        for key, unit in seen.desired.items()
        if isinstance(unit, Unit) and seen.selection and key not in chosen
        if getattr(seen.seen.state.get(key), "active", "") != "active"
    )
    return sorted(found)
