"""World x targets -> the part of the world that an apply may touch; the rest looks as if it were in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from pdctl.errors import ApplyError
from pdctl.plan.belonging import Layer, instance_of_key, layer_of, role_of
from pdctl.plan.model import Owed, Plan
from pdctl.plan.reboots import Boots
from pdctl.state import File, Key, Resource, State, Unit
from pdctl.state.model import compared
from pdctl.topology.model import Role, Topology


@dataclass(frozen=True)
class Targets:
    """What was asked for: things on one of `hosts`, of one of `roles`, of one of `instances`, in one of
    `layers`; an empty tuple is all of them."""

    hosts: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.hosts or self.roles or self.instances or self.layers)

    def __str__(self) -> str:
        named = {
            "host": self.hosts,
            "role": self.roles,
            "instance": self.instances,
            "layer": self.layers,
        }
        return " ".join(f"--{name} {value}" for name, values in named.items() for value in values)


@dataclass(frozen=True)
class World:
    """What is wanted, seen and recorded, as a plan is made from it."""

    desired: State
    observed: State
    recorded: State
    contents: Mapping[Key, bytes] = field(default_factory=dict)
    pending: Set[Key] = frozenset()
    unproven: Mapping[Key, str] = field(default_factory=dict)
    owed: Mapping[Key, Owed] = field(default_factory=dict)
    boots: Boots = field(default_factory=Boots)

    @property
    def keys(self) -> frozenset[Key]:
        return frozenset(self.desired.keys() | self.observed.keys() | self.recorded.keys() | self.pending)


@dataclass(frozen=True)
class Pulled:
    """What comes along, or is held back, although the targets do not say so. `instance` is empty for what is
    the host's own."""

    host: str
    instance: str
    because: str
    keys: frozenset[Key]


@dataclass(frozen=True)
class Selection:
    """`keys` may be touched. `pulled` came along, `held` are named by the targets and stay nevertheless."""

    targets: Targets
    keys: frozenset[Key]
    pulled: tuple[Pulled, ...] = ()
    held: tuple[Pulled, ...] = ()

    def told(self, plan: Plan) -> Selection:
        """Only those that the plan really touches, or would."""
        touched = {c.key for c in plan.changes} | {Key(r.host, f"unit:{r.unit}") for r in plan.restarts}
        return replace(self, pulled=tuple(p for p in self.pulled if p.keys & touched))


Planner = Callable[[World], Plan]


def named(topology: Topology, world: World, targets: Targets) -> frozenset[Key]:
    """What the targets name by themselves. Raises ApplyError for unknown names, and when that is nothing."""
    instances = _known(topology, world, targets)
    found = frozenset(key for key in world.keys if _is_named(topology.cluster, key, targets))
    if not found:
        raise ApplyError(f"`{targets}` names nothing", hint=f"there are: {', '.join(instances)}")
    return found


def hosts_named(topology: Topology, targets: Targets) -> frozenset[str]:
    """The hosts on which the targets may name anything."""
    hosts = frozenset(targets.hosts or topology.hosts)
    places = {i.name: i.host for i in topology.instances} | {Role.PROXY.value: topology.proxy.host}
    if set(targets.instances) - places.keys():  # it left the spec: it may be anywhere
        return hosts
    found = [
        host
        for name, host in places.items()
        if (not targets.instances or name in targets.instances)
        and (not targets.roles or role_of(name) in targets.roles)
    ]
    return hosts & set(found) if targets.instances or targets.roles else hosts


def narrowed(world: World, keys: Set[Key]) -> World:
    """The world in which everything outside `keys` is as it shall be, and was left so."""
    desired: dict[Key, Resource] = {key: row for key, row in world.desired.items() if key in keys}
    observed: dict[Key, Resource] = {key: row for key, row in world.observed.items() if key in keys}
    recorded: dict[Key, Resource] = {key: row for key, row in world.recorded.items() if key in keys}
    for key, row in world.observed.items():
        if key not in keys:
            seen = _quiet(row)
            observed[key] = recorded[key] = seen
            desired[key] = _wanted_so(seen, world.desired.get(key), world.contents.get(key))
    return World(
        desired,
        observed,
        recorded,
        {key: data for key, data in world.contents.items() if key in keys},
        frozenset(world.pending & keys),
        {key: why for key, why in world.unproven.items() if key in keys},
        {key: debt for key, debt in world.owed.items() if key in keys},
        replace(world.boots, within=frozenset(key.host for key in keys if layer_of(key) is Layer.PACKAGES)),
    )


def _wanted_so(row: Resource, means: Resource | None, content: bytes | None) -> Resource:
    """`row` as the wish, with how to get there where `means` tells it; `content` is a file's own."""
    if means is None or type(means) is not type(row):
        return row
    if isinstance(row, File) and isinstance(means, File) and row.digest != means.digest:
        return replace(row, content=content)
    if isinstance(means, Unit):
        # Its process was started from what was wanted before: no word of the new wish is one that it lacks.
        means = replace(means, argv=(), environment=(), secret_names=(), limits=())
    return replace(means, **{name: getattr(row, name) for name in compared(row)})


def _quiet(row: Resource) -> Resource:
    """A unit whose process is not asked about: what runs, runs well."""
    if not isinstance(row, Unit):
        return row
    running = row.active == "active" or (row.active == "masked" and bool(row.revision))
    return replace(row, active="active" if running else row.active, deviations=())


def _is_named(cluster: str, key: Key, targets: Targets) -> bool:
    owner = instance_of_key(cluster, key)
    return (
        (not targets.hosts or key.host in targets.hosts)
        and (not targets.layers or layer_of(key) in targets.layers)
        and (not targets.instances or owner in targets.instances)
        and (not targets.roles or role_of(owner) in targets.roles)
    )


def _known(topology: Topology, world: World, targets: Targets) -> list[str]:
    """The instances that there are; raises for every other name, with those of its kind."""
    owners = {instance_of_key(topology.cluster, key) for key in world.keys} - {""}
    instances = sorted(owners | {i.name for i in topology.instances} | {"proxy"}, key=_in_number)
    roles = [role.value for role in Role if role.value in {role_of(name) for name in instances}]
    _refuse("host", targets.hosts, topology.hosts)
    _refuse("role", targets.roles, roles)
    _refuse("instance", targets.instances, instances)
    _refuse("layer", targets.layers, [layer.value for layer in Layer])
    return instances


def _in_number(instance: str) -> tuple[str, int]:
    role, _, number = instance.partition("-")
    return role, int(number or 0)


def _refuse(kind: str, asked: Iterable[str], known: Iterable[str]) -> None:
    names = list(known)
    for name in asked:
        if name not in names:
            raise ApplyError(f"there is no {kind} `{name}`", hint=f"there are: {', '.join(names)}")
