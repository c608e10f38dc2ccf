"""Plan -> its blast radius: whom it touches, what it restarts and drains, and who serves meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from pdctl.plan.belonging import instance_of_key, role_of
from pdctl.plan.estimate import Estimate
from pdctl.plan.model import Action, Plan, StepKind
from pdctl.state import Key, State, Unit
from pdctl.topology.model import Role, Topology

PLURAL = {
    Role.PREFILLER: "prefillers",
    Role.DECODER: "decoders",
    Role.SERVER: "servers",
    Role.PROXY: "the proxy",
}


@dataclass(frozen=True)
class Radius:
    """`touched` are instances that stay and of which anything changes, by role; `total` how many a role has.

    `serving` are the roles of which somebody serves at every moment; `outages` say what is not served, when.
    """

    touched: Mapping[str, tuple[str, ...]]
    total: Mapping[str, int]
    adds: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    restarts: tuple[tuple[str, str], ...] = ()  # (host, instance)
    reloads: tuple[str, ...] = ()
    drains: tuple[str, ...] = ()
    serving: tuple[str, ...] = ()
    outages: tuple[str, ...] = ()
    reboots: tuple[str, ...] = ()  # hosts that reboot
    waits: tuple[str, ...] = ()  # hosts that need it and are not rebooted

    def text(self, time: Estimate) -> str:
        """`touches 1 of 4 decoders, restarts 2 units on h1; about 40 s; prefillers keep serving`"""
        return "; ".join(part for part in (self._work(), time.text, *self._service()) if part)

    def _work(self) -> str:
        words = [f"adds {_named(self.adds)}"] if self.adds else []
        words += [f"removes {_named(self.removes)}"] if self.removes else []
        shares = [
            _share(role, names, self.total) for role, names in self.touched.items() if not self._told(names)
        ]
        words += [f"touches {some(shares)}"] if shares else []
        words += [f"starts {_named(self.starts)}"] if self.starts else []
        hosts = sorted({host for host, _ in self.restarts})
        if self.restarts:
            units = f"{len(self.restarts)} unit{'s' if len(self.restarts) > 1 else ''}"
            words.append(f"restarts {units} on {some(hosts) if len(hosts) < 4 else f'{len(hosts)} hosts'}")
        words += ["reloads the proxy"] if self.reloads else []
        words += [f"drains {some(self.drains)}"] if self.drains else []
        words += [f"reboots {some(self.reboots)}"] if self.reboots else []
        return ", ".join(words) or "touches no instance"

    def _told(self, names: Sequence[str]) -> bool:
        """A reload is all that happens to them."""
        return set(names) <= set(self.reloads)

    def _service(self) -> Iterator[str]:
        yield from self.outages
        if self.serving:
            verb = "keeps" if self.serving == (PLURAL[Role.PROXY],) else "keep"
            # Without the others there is nothing that they could serve.
            yield f"{some(self.serving)} {verb} {'running' if self.outages else 'serving'}"
        if self.waits:
            yield f"{some(self.waits)} need{'' if self.waits[1:] else 's'} a reboot"


def radius(topology: Topology, plan: Plan, observed: State) -> Radius:
    cluster = topology.cluster
    restarts = {Key(r.host, f"unit:{r.unit}"): r.instance for r in plan.restarts}
    owners: dict[str, None] = {}
    for change in plan.changes:
        owners.setdefault(instance_of_key(cluster, change.key))
    owners |= dict.fromkeys(restarts.values())
    owners.pop("", None)
    units = {c.key: c for c in plan.changes if c.key.id.startswith("unit:")}
    adds = [_of(cluster, k) for k, c in units.items() if c.action is Action.CREATE and not c.drift]
    removes = [_of(cluster, k) for k, c in units.items() if c.action in (Action.DELETE, Action.FORGET)]
    starts = [
        _of(cluster, key)
        for key, c in units.items()
        if c.desired is not None and not _runs(c.observed) and _of(cluster, key) not in adds
    ]
    running, ends = _running(cluster, observed), _ends(plan)
    rest = [name for name in owners if name not in adds and name not in removes]
    return Radius(
        touched=_by_role(topology, rest),
        total={role.value: len(topology.of(role)) for role in Role},
        adds=_sorted(adds),
        removes=_sorted(removes),
        starts=_sorted(starts),
        restarts=tuple((key.host, name) for key, name in restarts.items()),
        reloads=_sorted(_reloads(plan, restarts)),
        drains=_sorted(dict.fromkeys(name for step in plan.steps for name in step.drain)),
        serving=tuple(PLURAL[role] for role in Role if _serves(ends, running.get(role, set()))),
        outages=tuple(dict.fromkeys([*_down(topology, plan, observed, running), *_outages(plan)])),
        reboots=plan.reboots.hosts,
        waits=plan.reboots.left,
    )


def _of(cluster: str, key: Key) -> str:
    return instance_of_key(cluster, key)


def _reloads(plan: Plan, restarts: Mapping[Key, str]) -> Iterator[str]:
    """Running units that read their configuration again and go on."""
    for change in plan.changes:
        want, have = change.desired, change.observed
        goes_on = isinstance(have, Unit) and _runs(have) and change.key not in restarts
        if (
            isinstance(want, Unit)
            and isinstance(have, Unit)
            and goes_on
            and want.loaded not in ("", have.loaded)
        ):
            yield want.instance


def _running(cluster: str, observed: State) -> dict[str, set[Key]]:
    """The units that run now, by role."""
    found: dict[str, set[Key]] = {}
    for key, row in observed.items():
        if isinstance(row, Unit) and _runs(row):
            found.setdefault(role_of(_of(cluster, key)), set()).add(key)
    return found


def _outages(plan: Plan) -> Iterator[str]:
    return (step.outage for step in plan.steps if step.outage)


def _down(topology: Topology, plan: Plan, observed: State, running: Mapping[str, Set[Key]]) -> Iterator[str]:
    """Roles of which nobody runs although they did, while others do: what is not answered already.

    What runs on hosts that were left out is not known.
    """
    if not running:
        return
    known = {_of(topology.cluster, key) for key, row in observed.items() if isinstance(row, Unit)}
    known |= {_of(topology.cluster, change.key) for change in plan.changes if change.drift}
    known -= {
        _of(topology.cluster, c.key) for c in plan.changes if c.action in (Action.DELETE, Action.FORGET)
    }
    for role in Role:
        proxy = role is Role.PROXY
        places = {"proxy": topology.proxy.host} if proxy else {i.name: i.host for i in topology.of(role)}
        unseen = set(places.values()) & plan.unreachable.keys()
        if known & places.keys() and not unseen and role not in running:
            who = "the proxy does not run" if proxy else f"no {role.value} runs"
            yield f"{who}: nothing is answered until {'it' if proxy else 'one'} does"


def _ends(plan: Plan) -> list[set[Key]]:
    """Units that each step stops or restarts."""
    hit = {Key(r.host, f"unit:{r.unit}") for r in plan.restarts}
    hit |= {c.key for c in plan.changes if c.action is Action.DELETE}
    stops, others = (StepKind.STOP, StepKind.REBOOT), (StepKind.UNITS, StepKind.DELETE)
    return [
        {key for key in step.keys if key.id.startswith("unit:") and (step.kind in stops or key in hit)}
        for step in plan.steps
        if step.kind in stops or step.kind in others
    ]


def _serves(ends: Sequence[set[Key]], running: set[Key]) -> bool:
    """Whether some of those that run now run at each moment, as far as pdctl stops and restarts them."""
    return bool(running) and not any(running <= end for end in ends)


def _runs(resource: object) -> bool:
    return isinstance(resource, Unit) and resource.active == "active"


def _by_role(topology: Topology, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found = {role.value: _sorted(n for n in names if role_of(n) == role) for role in Role}
    return {role: some for role, some in found.items() if some}


def _sorted(names: Iterator[str] | Sequence[str] | Mapping[str, None]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: (role_of(name), int(name.partition("-")[2] or 0))))


def _named(names: Sequence[str]) -> str:
    """By name, or from four on counted by role: `2 decoders, prefiller-0 and the proxy`."""
    if len(names) < 4:
        return some(names)
    roles = {role: [name for name in names if role_of(name) == role] for role in Role}
    return some([_count(role, mine) for role, mine in roles.items() if mine])


def _count(role: Role, names: Sequence[str]) -> str:
    if role is Role.PROXY:
        return PLURAL[role]
    return names[0] if len(names) == 1 else f"{len(names)} {PLURAL[role]}"


def _share(role: str, names: Sequence[str], total: Mapping[str, int]) -> str:
    if role == Role.PROXY:
        return "the proxy"
    count = total[role]
    return f"{len(names)} of {count} {PLURAL[Role(role)]}" if count > 1 else names[0]


def some(names: Sequence[str]) -> str:
    """`a, b and c`; many are counted: `a, b, c and 9 more`."""
    shown = list(names) if len(names) < 5 else [*names[:3], f"{len(names) - 3} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
