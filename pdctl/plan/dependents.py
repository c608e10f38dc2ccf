"""World x targets -> Selection: what must come along so that the rest keeps working, each with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from typing import Any

from pdctl.desired.layout import config_dir
from pdctl.plan.belonging import Layer, instance_of_key, layer_of, role_of
from pdctl.plan.model import Plan
from pdctl.plan.restarts import stale_peers, unit_file
from pdctl.plan.targets import Planner, Pulled, Selection, Targets, World, named, narrowed
from pdctl.state import Key, Unit
from pdctl.topology.model import Role, Topology

# Lists of proxy.json whose entries belong to instances (docs/proxy.md).
LISTS = ("prefillers", "decoders", "servers")


def select(topology: Topology, world: World, targets: Targets, plan_of: Planner) -> Selection:
    """What the targets name and what depends on it. Raises ApplyError for names that nothing has."""
    keys = set(named(topology, world, targets))
    full = plan_of(world)
    pulled: list[Pulled] = []
    while True:
        plan = plan_of(narrowed(world, keys))
        more = [p for p in _needed(topology, world, keys, plan) if p.keys - keys]
        if not more:
            break
        pulled += more
        for each in more:
            keys |= each.keys
    held = tuple(_held(topology, world, keys, full))
    for each in held:
        keys -= each.keys
    return Selection(targets, frozenset(keys), tuple(_merged(pulled)), held).told(plan)


def _needed(topology: Topology, world: World, keys: Set[Key], plan: Plan) -> Iterator[Pulled]:
    yield from _inputs(topology, world, keys)
    yield from _ground(topology, world, keys)
    yield from _stale_prefillers(topology, world, keys, plan)
    yield from _in_the_way(topology, world, keys, plan)
    yield from _leaving(topology, world, keys)
    yield from _listed(topology, world, keys)


def _inputs(topology: Topology, world: World, keys: Set[Key]) -> Iterator[Pulled]:
    """A unit goes with the files and the runtime that it is started from."""
    for key in sorted(keys):
        unit = world.desired.get(key)
        if isinstance(unit, Unit):
            found = {unit_file(key, unit), *(Key(key.host, name) for name in unit.inputs)}
            for one in sorted(found & world.keys):
                owner = instance_of_key(topology.cluster, one)
                yield Pulled(key.host, owner, f"{unit.instance} is started from it", frozenset({one}))


def _ground(topology: Topology, world: World, keys: Set[Key]) -> Iterator[Pulled]:
    """Users, folders and packages that a host lacks altogether."""
    works = {key.host for key in keys if key in world.desired}
    starting = {key.host for key in keys if layer_of(key) is Layer.UNITS}
    lacks: dict[str, set[Key]] = {}
    for key in world.desired.keys() - world.observed.keys():
        if layer_of(key) in (Layer.BASE, Layer.PACKAGES):
            lacks.setdefault(key.host, set()).add(key)
    for host in sorted(works):
        missing, units = lacks.get(host, set()), host in starting
        some = missing if units else {key for key in missing if layer_of(key) is Layer.BASE}
        if some:
            yield Pulled(host, "", "the host lacks it", frozenset(some))


def _stale_prefillers(topology: Topology, world: World, keys: Set[Key], plan: Plan) -> Iterator[Pulled]:
    """A prefiller that keeps a decoder's old addresses restarts with the decoder."""
    lost = sorted(_lost_decoders(world, keys, plan)) if stale_peers(topology) else []
    if not lost:
        return
    because = f"LMCache never renews a peer, and {lost[0]} restarts"
    because = because if len(lost) == 1 else f"LMCache never renews a peer, and {len(lost)} decoders restart"
    for key, unit in sorted(world.desired.items()):
        if isinstance(unit, Unit) and unit.role == Role.PREFILLER and _runs(world, key):
            yield Pulled(key.host, unit.instance, because, _whole(topology, world, unit.instance))


def _lost_decoders(world: World, keys: Set[Key], plan: Plan) -> Iterator[str]:
    yield from (r.instance for r in plan.restarts if role_of(r.instance) == Role.DECODER)
    for key in keys:
        unit = world.desired.get(key)
        known = isinstance(unit, Unit) and unit.role == Role.DECODER and key in world.recorded
        if isinstance(unit, Unit) and known and not _runs(world, key):
            yield unit.instance


def _runs(world: World, key: Key) -> bool:
    now = world.observed.get(key)
    return isinstance(now, Unit) and now.active == "active"


def _in_the_way(topology: Topology, world: World, keys: Set[Key], plan: Plan) -> Iterator[Pulled]:
    """Units that left the spec may hold the GPUs and ports of an engine that is about to start."""
    coming = {Key(restart.host, f"unit:{restart.unit}"): restart.instance for restart in plan.restarts}
    coming |= {
        change.key: change.desired.instance
        for change in plan.changes
        if isinstance(change.desired, Unit) and change.key in keys
    }
    engines = {key.host: name for key, name in coming.items() if role_of(name) != Role.PROXY}
    for key, row in sorted(world.observed.items()):
        if isinstance(row, Unit) and key not in world.desired and key.host in engines:
            instance = instance_of_key(topology.cluster, key)
            because = f"it left the spec, and may hold what {engines[key.host]} needs"
            yield Pulled(key.host, instance, because, _whole(topology, world, instance))


def _leaving(topology: Topology, world: World, keys: Set[Key]) -> Iterator[Pulled]:
    """An instance that left the spec goes whole."""
    for key in sorted(keys - world.desired.keys()):
        instance = instance_of_key(topology.cluster, key)
        if instance and layer_of(key) is Layer.UNITS:
            yield Pulled(key.host, instance, "it left the spec", _whole(topology, world, instance))


def _listed(topology: Topology, world: World, keys: Set[Key]) -> Iterator[Pulled]:
    """The proxy's list and the instances that it tells of go together, once there is such a list."""
    place = Key(topology.proxy.host, f"file:{config_dir(topology.cluster)}/proxy.json")
    before, after = world.contents.get(place), getattr(world.desired.get(place), "content", None)
    if before is None or after is None:  # absent, or the same
        return
    changed = sorted(_changed_entries(before, after))
    units = {instance_of_key(topology.cluster, k): k.host for k in keys if layer_of(k) is Layer.UNITS}
    touched = [name for name in changed if name in units]
    if touched:
        because = f"its list tells of {touched[0]}" + (f" and {len(touched) - 1} more" if touched[1:] else "")
        yield Pulled(place.host, "proxy", because, _whole(topology, world, "proxy"))
    for name in changed if "proxy" in units else ():
        because = "the proxy's new list tells of it"
        whole = _whole(topology, world, name)
        yield from (Pulled(host, name, because, whole) for host in sorted({key.host for key in whole}))


def _changed_entries(before: bytes, after: bytes) -> Iterator[str]:
    old, new = _entries(before), _entries(after)
    yield from (name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def _entries(config: bytes) -> dict[str, Any]:
    """The entries of a proxy.json by instance; somebody may have broken the one on the host."""
    try:
        found = json.loads(config)
        return {entry["name"]: entry for kind in LISTS for entry in found.get(kind, ())}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _whole(topology: Topology, world: World, instance: str) -> frozenset[Key]:
    return frozenset(key for key in world.keys if instance_of_key(topology.cluster, key) == instance)


def _held(topology: Topology, world: World, keys: Set[Key], full: Plan) -> Iterator[Pulled]:
    """What must not go yet: a unit that stays as it is may still use it."""
    busy = {c.key for c in full.changes if isinstance(c.observed, Unit)}
    busy |= {Key(restart.host, f"unit:{restart.unit}") for restart in full.restarts}
    others: dict[str, str] = {}
    for key in sorted(busy - keys):
        others.setdefault(key.host, instance_of_key(topology.cluster, key))
    for key in sorted(keys - world.desired.keys()):
        instance = instance_of_key(topology.cluster, key)
        if instance and layer_of(key) is not Layer.UNITS:
            units = {k for k in _whole(topology, world, instance) if layer_of(k) is Layer.UNITS}
            if (units & world.observed.keys()) - keys:
                yield Pulled(key.host, instance, f"{instance} still runs", frozenset({key}))
        elif not instance and key.host in others and key in world.observed:
            yield Pulled(key.host, "", f"{others[key.host]} may still use it", frozenset({key}))


def _merged(pulled: list[Pulled]) -> Iterator[Pulled]:
    """One row for each thing and reason."""
    found: dict[tuple[str, str, str], frozenset[Key]] = {}
    for each in pulled:
        place = (each.host, each.instance, each.because)
        found[place] = found.get(place, frozenset()) | each.keys
    yield from (Pulled(*place, keys) for place, keys in found.items())
