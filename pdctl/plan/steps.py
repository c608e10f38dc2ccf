"""The order of a plan: files first, then decoders, prefillers and the proxy, each behind a gate."""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.plan.model import Action, Change, Drift, Restart, Step, StepKind
from pdctl.plan.restarts import unit_file
from pdctl.plan.room import halted, in_the_way
from pdctl.state import Key, State, Unit
from pdctl.topology.model import START_ORDER, Role

ROLE_TITLE = {
    Role.DECODER: "Start decoders and wait until they are healthy",
    Role.SERVER: "Start servers and wait until they are healthy",
    Role.PREFILLER: "Start prefillers and wait until they are healthy",
    Role.PROXY: "Start the proxy and wait until it is healthy",
}


def steps(
    changes: Sequence[Change], restarts: Sequence[Restart], drift: Sequence[Drift], wanted: State
) -> tuple[Step, ...]:
    """Ordered steps; each key stands in one step, those halted before their restart in two.

    Units that left the spec stop first when another one starts on their host (it may want their GPUs or
    ports), else last, when nothing needs them any more.
    """
    units = {key: r for key, r in wanted.items() if isinstance(r, Unit)}
    gone = [c for c in changes if c.action in (Action.DELETE, Action.FORGET)]
    kept = [c for c in changes if c not in gone]
    put = tuple(c.key for c in kept if not isinstance(c.desired, Unit)) + _learned(changes, drift, wanted)
    stop = in_the_way(gone, kept, restarts, wanted)
    rest = tuple(c.key for c in gone if c.key not in stop)
    stop += halted(kept, restarts, wanted)
    touched = _touched_units(kept, restarts, drift, units)
    found = [Step("put", "Put users, packages, files and runtimes in place", put, StepKind.PUT)]
    found.append(Step("stop", "Stop what makes room", stop, StepKind.STOP))
    for role in START_ORDER:
        found.append(Step(role.value, ROLE_TITLE[role], tuple(k for k in touched if units[k].role == role)))
    found.append(Step("delete", "Remove what left the spec", rest, StepKind.DELETE))
    return tuple(step for step in found if step.keys)


def _learned(changes: Sequence[Change], drift: Sequence[Drift], wanted: State) -> tuple[Key, ...]:
    """What drifted to something that is as good: only the record has to learn it."""
    changed = {c.key for c in changes}
    return tuple(
        d.key
        for d in drift
        if d.key in wanted and d.key not in changed and not isinstance(wanted[d.key], Unit)
    )


def _touched_units(
    kept: Sequence[Change], restarts: Sequence[Restart], drift: Sequence[Drift], units: dict[Key, Unit]
) -> list[Key]:
    changed = {c.key for c in kept if isinstance(c.desired, Unit)}
    restarted = {Key(r.host, f"unit:{r.unit}") for r in restarts}
    # Only the record has to learn these: they run as wanted, but not the run that was recorded.
    learned = {d.key for d in drift if d.key in units}
    files = {c.key for c in kept}
    reloaded = {key for key, unit in units.items() if unit_file(key, unit) in files}
    return sorted(changed | restarted | learned | reloaded)
