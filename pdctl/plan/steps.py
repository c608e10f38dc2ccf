"""The order of a plan: files first, then what does not run yet, then running instances batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pdctl.desired.layout import instance_of
from pdctl.plan.front import Front, front
from pdctl.plan.model import Action, Change, Drift, Restart, Step, StepKind
from pdctl.plan.restarts import stale_peers, unit_file
from pdctl.plan.rollout import Member, only, roll, told
from pdctl.plan.room import halted, in_the_way
from pdctl.plan.waves import tie, waves
from pdctl.state import Key, State, Unit
from pdctl.topology.model import START_ORDER, Role, Topology

ROLE_TITLE = {
    Role.DECODER: "Start decoders and wait until they are healthy",
    Role.SERVER: "Start servers and wait until they are healthy",
    Role.PREFILLER: "Start prefillers and wait until they are healthy",
    Role.PROXY: "Start the proxy and wait until it is healthy",
}
PUT_TITLE = "Put users, packages, files and runtimes in place"
PROXY_AWAY = "no request is taken while the proxy restarts"
ALL_AWAY = "nothing is answered until all of them and the proxy are as the spec says"


@dataclass(frozen=True)
class Work:
    """What a plan has found, before its order."""

    topology: Topology
    wanted: State
    observed: State
    changes: Sequence[Change]
    restarts: Sequence[Restart]
    drift: Sequence[Drift]
    contents: Mapping[Key, bytes]

    def units(self) -> dict[Key, Unit]:
        return {key: r for key, r in self.wanted.items() if isinstance(r, Unit)}

    def gone(self) -> list[Change]:
        return [c for c in self.changes if c.action in (Action.DELETE, Action.FORGET)]

    def kept(self) -> list[Change]:
        return [c for c in self.changes if c.action not in (Action.DELETE, Action.FORGET)]

    def restarted(self) -> dict[Key, Restart]:
        return {Key(r.host, f"unit:{r.unit}"): r for r in self.restarts}

    def runs(self, key: Key) -> bool:
        now = self.observed.get(key)
        return isinstance(now, Unit) and now.active == "active"

    def instance(self, key: Key) -> str:
        return instance_of(self.topology.cluster, key.id.removeprefix("unit:"))


def steps(work: Work) -> tuple[Step, ...]:
    """Ordered steps; each key stands in one step that puts or starts it, those halted before in two.

    What does not run starts at once, a role at a time. Engines that run and restart follow in batches, each
    drained at the proxy first, unless they cannot be mixed with those of before (`_together`). Units that
    left the spec stop first when another one starts on their host (it may want their GPUs or ports), else
    last, when nothing needs them any more.
    """
    kept, gone = work.kept(), work.gone()
    door = front(work.topology, work.wanted, work.observed, work.restarted(), work.contents)
    leaving = in_the_way(gone, kept, work.restarts, work.wanted)
    halting = halted(kept, work.restarts, work.wanted, work.observed, ordered=_together(door))
    rest = tuple(c.key for c in gone if c.key not in leaving)
    put = tuple(c.key for c in kept if not isinstance(c.desired, Unit)) + _learned(work)
    found = [Step("put", PUT_TITLE, put, StepKind.PUT)]
    found += _room(work, door, leaving + halting)
    found += _units(work, door, halting)
    found.append(Step("delete", "Remove what left the spec", rest, StepKind.DELETE))
    return tuple(step for step in found if step.keys)


def _units(work: Work, door: Front, halting: Sequence[Key]) -> list[Step]:
    """Starts, then the rollout, and the proxy at the end or where it takes up its list without harm."""
    units, touched = work.units(), _touched_units(work)
    rolled = set() if _together(door) else _rolled(work, halting)
    leaving = [c.key for c in work.gone() if work.runs(c.key)]
    moving = {work.instance(key) for key in rolled} & door.moved
    early = door.reloads and not (door.restarts or door.more or leaving or moving)
    members = _members(work, door, rolled, halting, early=early)
    tied = tie(members, door, stale=stale_peers(work.topology))
    early = early and not tied
    proxy = _proxy(door, touched)
    held = set() if early else _held(work, door, members, halting)
    found = [told(door, "apart", (), (), tied.fresh)] if tied and tied.fresh else []
    for role in START_ORDER[:-1]:
        keys = tuple(k for k in touched if units[k].role == role and k not in rolled)
        away = ALL_AWAY if not rolled and door.runs and any(k in work.restarted() for k in keys) else ""
        found.append(Step(role.value, ROLE_TITLE[role], keys, outage=away))
    found += proxy if early else []
    rollout = work.topology.spec.serving.rollout
    found += waves(tied, door, rollout, held) if tied else roll(members, door, rollout, held)
    found += _farewell(work, door)
    return found + ([] if early else proxy)


def _together(door: Front) -> bool:
    """Whether engines of before and after cannot serve side by side, or none is asked anything."""
    return door.switched or (door.seen and not door.runs)


def _rolled(work: Work, halting: Sequence[Key]) -> set[Key]:
    units = work.units()
    return {
        key
        for key in work.restarted()
        if work.runs(key) and key not in halting and units[key].role != Role.PROXY
    }


def _members(
    work: Work, door: Front, rolled: set[Key], halting: Sequence[Key], *, early: bool
) -> list[Member]:
    """The engines of the spec that run, or will before the first batch."""
    starting = {c.key for c in work.kept() if isinstance(c.desired, Unit) and not work.runs(c.key)}
    starting |= set(halting)
    return [
        Member(
            unit.instance,
            Role(unit.role),
            key,
            rolls=key in rolled,
            moves=key in rolled and unit.instance in door.moved,
            starts=key in starting,
            known=early or unit.instance in door.known - (door.moved if key in starting else frozenset()),
            apart=unit.instance in door.apart,
        )
        for key, unit in sorted(work.units().items())
        if unit.role != Role.PROXY
    ]


def _proxy(door: Front, touched: Sequence[Key]) -> list[Step]:
    title = ROLE_TITLE[Role.PROXY]
    if door.runs and not door.restarts:
        title = "Have the proxy take up its new list"
    keys = tuple(key for key in touched if key == door.key)
    return [Step(Role.PROXY.value, title, keys, outage=PROXY_AWAY if door.restarts else "")]


def _room(work: Work, door: Front, keys: Sequence[Key]) -> list[Step]:
    """What is about to be stopped is drained before, where another one serves."""
    names = _drainable(work, door, keys)
    alone = [name for key in keys if work.runs(key) and (name := work.instance(key)) not in names]
    away = only(Role(alone[0].split("-")[0]), alone) if alone and door.runs else ""
    stop = Step("stop", "Stop what makes room", tuple(keys), StepKind.STOP, outage=away)
    return [*([told(door, "room", names)] if names else []), stop]


def _farewell(work: Work, door: Front) -> list[Step]:
    """Instances that left the spec get no request any more; then the proxy forgets them."""
    names = _drainable(work, door, [c.key for c in work.gone() if isinstance(c.observed, Unit)])
    return [told(door, "leave", names)] if names else []


def _held(work: Work, door: Front, members: Sequence[Member], halting: Sequence[Key]) -> set[str]:
    """Drained already, and running again before the first batch: what was halted, and what an earlier
    rollout left behind."""
    again = set(_drainable(work, door, halting))
    return again | {m.name for m in members if m.name in door.drained and not m.rolls and not m.starts}


def _drainable(work: Work, door: Front, keys: Sequence[Key]) -> list[str]:
    """Those of `keys` that run, as far as another one of their role, which stays, runs too."""
    if not door.listens:
        return []
    staying = {unit.role for key, unit in work.units().items() if work.runs(key) and key not in keys}
    found = [work.instance(key) for key in keys if work.runs(key) and key != door.key]
    return sorted(name for name in found if name.split("-")[0] in staying)


def _learned(work: Work) -> tuple[Key, ...]:
    """What drifted to something that is as good: only the record has to learn it."""
    changed = {c.key for c in work.changes}
    return tuple(
        d.key
        for d in work.drift
        if d.key in work.wanted and d.key not in changed and not isinstance(work.wanted[d.key], Unit)
    )


def _touched_units(work: Work) -> list[Key]:
    units = work.units()
    changed = {c.key for c in work.kept() if isinstance(c.desired, Unit)}
    # Only the record has to learn these: they run as wanted, but not the run that was recorded.
    learned = {d.key for d in work.drift if d.key in units}
    files = {c.key for c in work.kept()}
    reloaded = {key for key, unit in units.items() if unit_file(key, unit) in files}
    return sorted(changed | work.restarted().keys() | learned | reloaded)
