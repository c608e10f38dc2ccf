"""Running engines that restart -> steps that restart them while others serve.

Without ties between the roles: role by role, batch by batch, each drained first. With them (a prefiller keeps
a decoder's addresses for ever, or all of both roles change) see `pdctl.plan.waves`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from pdctl.plan.batches import Batch, batches
from pdctl.plan.front import Front
from pdctl.plan.model import Step, StepKind
from pdctl.spec.serving import Rollout
from pdctl.state import Key
from pdctl.topology.model import START_ORDER, Role

NAMED = 3  # instances in a title


@dataclass(frozen=True)
class Member:
    """One engine of the spec. `rolls`: it runs and restarts, `moves`: with another address; `starts`: earlier
    steps bring it up; `known`: the proxy gives it requests when it is up; `apart`: left
    drained or on a side of its own by an earlier rollout; `unseen`: its host was left out, so nobody knows
    whether it serves; `down`: it does not run, and is started once its host has been rebooted."""

    name: str
    role: Role
    key: Key
    rolls: bool = False
    moves: bool = False
    starts: bool = False
    known: bool = True
    apart: bool = False
    unseen: bool = False
    down: bool = False


@dataclass(frozen=True)
class Group:
    """Hosts that reboot together: their engines, all that the step has to do there, and whether the proxy is
    on one of them."""

    hosts: tuple[str, ...]
    names: tuple[str, ...]
    keys: tuple[Key, ...]
    proxy: bool = False


@dataclass
class Steps:
    """Steps as they grow. `held`: drained so far, to be undrained by the next drain step. `stuck`: those that
    the proxy would look for at their old address until it reads its list again (`dirty`). `away`: drained by
    an earlier rollout, and none to rely on before they have been restarted."""

    front: Front
    members: Sequence[Member]
    held: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    dirty: bool = False
    sides: Collection[str] = ()  # as they are now
    found: list[Step] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        self.keys = {m.name: m.key for m in self.members}
        self.away = {m.name for m in self.members if m.rolls and (m.down or m.name in self.front.drained)}
        self.by_role: dict[Role, list[Member]] = {}
        for member in self.members:
            self.by_role.setdefault(member.role, []).append(member)

    def ready(self, batch: Collection[str], *roles: Role) -> list[Member]:
        """Those of the roles that serve while `batch` does not."""
        gone = {*batch, *self.away}
        return [m for m in self.members if m.role in roles and m.known and m.name not in gone]

    def sides_with(
        self, role: Role, new: Collection[str], batch: Collection[str], *, unseen: bool
    ) -> set[bool]:
        """On which sides one of the role serves, or may do so `unseen`, while `batch` does not: True is the
        new one."""
        mine, found = self.by_role.get(role, []), set[bool]()
        # From both ends: they restart in order, and none of 2,000 waves has to look at 2,000 members.
        for member in (each for both in zip(mine, reversed(mine), strict=True) for each in both):
            there = member.known and (unseen or not member.unseen)
            if there and member.name not in batch and member.name not in self.away:
                found.add(member.name in new)
            if len(found) == 2:
                break
        return found

    def drain(
        self,
        names: Sequence[str],
        sides: Collection[str] | None = None,
        *,
        reload: bool = False,
        others: bool = True,
        outage: str = "",
    ) -> None:
        """The next batch goes away, the one before comes back. No step where the proxy has nothing to do."""
        self.number += 1
        self._tell(f"drain_{self.number}", names, sides, reload, others, outage)

    def restart(self, names: Sequence[str], outage: str = "") -> None:
        """The batch of the drain step before."""
        title = f"Restart {some(names)} and wait until {'it is' if len(names) == 1 else 'they are'} healthy"
        keys = tuple(sorted(self.keys[name] for name in names))
        self.found.append(Step(f"restart_{self.number}", title, keys, StepKind.UNITS, outage=outage))
        self.held = (*self.held, *(n for n in names if n in self.away and n not in self.held))
        self.away -= set(names)

    def reboot(self, group: Group, outage: str = "") -> None:
        """After its engines were drained. A proxy there comes back with nobody drained or apart."""
        title = f"Reboot {some(group.hosts)}"
        name = f"reboot_{self.number}"
        self.found.append(Step(name, title, group.keys, StepKind.REBOOT, outage=outage, hosts=group.hosts))
        if group.proxy:
            self.front = replace(self.front, listens=False)

    def moved(self) -> None:
        """The batch just restarted has another address: it waits for the proxy's new list."""
        self.stuck, self.held, self.dirty = (*self.stuck, *self.held), (), True

    def finish(self, sides: Collection[str] | None = None) -> list[Step]:
        """All serve again; the step of the proxy follows."""
        self._tell("undrain", (), sides, bool(self.stuck) or (self.dirty and sides is not None))
        return self.found

    def _tell(
        self,
        name: str,
        drain: Sequence[str],
        sides: Collection[str] | None,
        reload: bool,
        others: bool = True,
        outage: str = "",
    ) -> None:
        back = (*self.stuck, *self.held) if reload else self.held
        parts = sides is not None and (len(sides) != len(self.sides) or set(sides) != set(self.sides))
        if self.front.listens and (drain or back or reload or parts):
            step = told(self.front, name, drain, back, sides, reload=reload)
            self.found.append(replace(step, others=others, outage=outage))
            self.held, self.sides = tuple(drain), self.sides if sides is None else set(sides)
            self.stuck, self.dirty = ((), False) if reload else (self.stuck, self.dirty)


def roll(
    members: Sequence[Member],
    front: Front,
    rollout: Rollout,
    held: Collection[str],
    groups: Sequence[Group] = (),
) -> list[Step]:
    """Steps for roles that do not depend on each other. `held` are drained already and serve again first,
    `groups` are rebooted first, and that of the proxy last.

    Those that get another address come last, in two parts: the proxy reaches the second part until it reads
    its list again, and the first part from then on.
    """
    steps = Steps(front, members, tuple(sorted(held)))
    for group in (group for group in groups if not group.proxy):
        _reboot(steps, group)
    own = {name for group in groups for name in group.names}
    plain = [replace(m, rolls=m.rolls and m.name not in own) for m in members]
    roles = [[m for m in plain if m.role == role] for role in START_ORDER]
    for mine in roles:
        for batch in _batches(mine, rollout, moves=False):
            _restart(steps, mine[0].role, batch)
    moving = [(mine, parts) for mine in roles if (parts := _batches(mine, rollout, moves=True))]
    for mine, parts in moving:
        _restart(steps, mine[0].role, parts[0])
        steps.moved()
    for mine, parts in moving:
        if rest := [name for part in parts[1:] for name in part]:
            _restart(steps, mine[0].role, rest, reload=steps.dirty)
    for group in (group for group in groups if group.proxy):
        _reboot(steps, group)
    return steps.finish()


def _reboot(steps: Steps, group: Group) -> None:
    """Drained first whoever else serves: what it works on ends."""
    roles = [role for role in START_ORDER if any(m.name in group.names for m in steps.by_role.get(role, ()))]
    serve = {role: steps.ready(group.names, role) for role in roles}
    sure = all(any(not m.unseen for m in others) for others in serve.values())
    away = without_proxy(group) if group.proxy else ""
    if not sure and not away and steps.front.runs:
        others = [m for some in serve.values() for m in some if m.unseen]
        away = unsure(others, group.names) if all(serve.values()) else meanwhile(group)
    steps.drain(group.names, others=sure and not group.proxy, outage=away)
    steps.reboot(group, away)
    if group.names:
        steps.restart(group.names, away)


def without_proxy(group: Group) -> str:
    return f"no request is taken until the proxy is back: its host {some(group.hosts)} reboots"


def meanwhile(group: Group) -> str:
    back = "it is" if len(group.names) == 1 else "they are"
    where = some(group.hosts)
    return f"{some(group.names)} on {where} alone serve: nothing is answered until {back} back"


def _batches(mine: Sequence[Member], rollout: Rollout, *, moves: bool) -> list[Batch]:
    names = rolling(m for m in mine if m.moves == moves)
    others = sum(m.known and not m.unseen and m.name not in names for m in mine)
    return batches(names, rollout, others)


def _restart(steps: Steps, role: Role, batch: Sequence[str], *, reload: bool = False) -> None:
    others = steps.ready(batch, role)
    sure = any(not m.unseen for m in others)
    alone = unsure(others, batch) if others else only(role, batch)
    away = alone if steps.front.runs and not sure else ""
    if sure or not others:
        steps.drain(batch if sure else (), reload=reload)
    else:
        steps.drain(batch, reload=reload, others=False, outage=away)
    steps.restart(batch, away)


def rolling(members: Iterable[Member]) -> list[str]:
    """Those that restart, in order; one that an earlier rollout left drained costs nothing and goes first."""
    return [m.name for m in sorted(members, key=lambda m: not m.apart) if m.rolls]


def only(role: Role, batch: Sequence[str]) -> str:
    """What is not answered while those are away who alone serve."""
    back = "it is back" if len(batch) == 1 else "they are back"
    works = f"{some(batch)} work{'s' if len(batch) == 1 else ''} on"
    return f"no other {role} serves: what {works} fails, and nothing is answered until {back}"


def unsure(others: Sequence[Member], batch: Sequence[str] = ()) -> str:
    """The same where others may serve that could not be looked at; without a batch nobody comes back."""
    one = len(others) == 1
    where = some(sorted({m.key.host for m in others}))
    back = f" until {some(batch)} {'is' if len(batch) == 1 else 'are'} back" if batch else ""
    return (
        f"{some(sorted(m.name for m in others))} on {where} {'was' if one else 'were'} not looked at: unless"
        f" {'it serves' if one else 'they serve'}, nothing is answered{back}"
    )


def told(
    front: Front,
    name: str,
    drain: Sequence[str],
    undrain: Sequence[str] = (),
    sides: Collection[str] | None = None,
    *,
    reload: bool = False,
) -> Step:
    """A drain step: the proxy is told all this at once, in this order."""
    words = ["have the proxy take up its new list"] if reload else []
    words += [f"undrain {some(undrain)}"] if undrain else []
    words += [f"drain {some(drain)}"] if drain else []
    words += [f"keep {some(sorted(sides))} apart from the others"] if sides else []
    words += ["pair all instances again"] if sides is not None and not sides and not drain else []
    return Step(
        name,
        ", ".join(words).capitalize(),
        (front.key,),
        StepKind.DRAIN,
        drain=tuple(drain),
        undrain=tuple(undrain),
        sides=None if sides is None else tuple(sorted(sides)),
        reload=reload,
    )


def some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    if more > 1:
        return f"{', '.join(names[:NAMED])} and {more} more"
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else "".join(names)
