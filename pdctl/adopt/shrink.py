"""Values with everything pinned -> the shortest ones that still say the same places and ports."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from typing import Any

from pdctl.adopt.deployment import OWN_UNIT, Deployment
from pdctl.adopt.verdict import judge, prune, topology_of
from pdctl.adopt.words import after_program
from pdctl.desired.engine import argv
from pdctl.topology.model import Instance, Role, Topology
from pdctl.topology.placement import POOL_FIELD
from pdctl.topology.ports import DECODER_OFFSET

# Fields that go as soon as nothing changes without them.
OPTIONAL = (
    ("serving", "lmcache", "prefiller_buffer_bytes"),
    ("serving", "lmcache", "buffer_bytes"),
    ("serving", "lmcache", "chunk_size"),
    ("serving", "proxy", "ports", "metrics"),
    ("serving", "proxy", "ports", "notification"),
    ("serving", "proxy", "ports", "http"),
    ("serving", "proxy", "host"),
    ("serving", "load_timeout_s"),
    *(("serving", pool, "tensor_parallel") for pool in POOL_FIELD.values()),
)
# Fields that pdctl sets by itself in some clusters; where it puts them among the words depends on who asks.
LIMITS = (("max_num_seqs", "max_num_batched_tokens"), ("max_num_batched_tokens",), ("max_num_seqs",), ())


def shrunk(values: dict[str, Any], deployment: Deployment) -> dict[str, Any]:
    """`values` are valid and say what runs; each shortening is kept if the topology stays that."""
    numbered = all(OWN_UNIT.fullmatch(engine.process.unit) for engine in deployment.engines)
    target = _meaning(topology_of(values), numbered)
    best = copy.deepcopy(values)

    def fits(candidate: dict[str, Any]) -> bool:
        topology = topology_of(candidate)
        return _meaning(topology, numbered) == target and _alike(topology, deployment) >= alike

    alike = _alike(topology_of(values), deployment)

    for role in deployment.roles:
        best = next((c for c in _shorter_pools(best, role) if fits(c)), best)
        fewer = [c for c in _without_limits(best, POOL_FIELD[role]) if fits(c)]
        best = max(fewer, key=lambda c: _alike(topology_of(c), deployment), default=best)
    for path in (*OPTIONAL, *((("serving", "ports", name)) for name in sorted(best["serving"]["ports"]))):
        candidate = _without(best, path)
        if candidate is not None and fits(candidate):
            best = candidate
    return best if judge(best).topology else values


def _alike(topology: Topology | None, deployment: Deployment) -> int:
    """How many engines would be called by the very words that call them now, in the same order."""
    if topology is None:
        return 0
    now = {(e.host, e.port): after_program(e.process.argv) for e in deployment.engines}
    return sum(
        after_program(argv(topology, i, "python")) == now.get((i.host, i.ports.http))
        for i in topology.instances
    )


def _meaning(topology: Topology | None, numbered: bool) -> Hashable:
    """What a draft must keep; the numbers of instances only where units carry them already."""
    if topology is None:
        return None
    instances = frozenset(_place(instance, numbered) for instance in topology.instances)
    flags = frozenset(_words(topology, instance) for instance in topology.instances)
    return instances, flags, topology.proxy, topology.kv, topology.spec.serving.load_timeout_s


def _place(item: Instance, numbered: bool) -> Hashable:
    """Ports that nobody was promised may go with another number."""
    ports = item.ports
    own = (item.index, ports.internal_api, ports.engine) if numbered else ()
    return item.role, item.host, item.gpus, ports.http, ports.init, ports.alloc, ports.side_channel, own


def _words(topology: Topology, instance: Instance) -> Hashable:
    """Its command line, but for the words that hold its name."""
    words = argv(topology, instance, "python")
    named = words.index("--kv-transfer-config") + 1 if "--kv-transfer-config" in words else len(words)
    return (instance.host, *sorted(words[:named] + words[named + 1 :]))


def _shorter_pools(values: dict[str, Any], role: Role) -> Iterator[dict[str, Any]]:
    """From the shortest: a count, a count on some hosts, places without ports or GPUs, in either order."""
    pool = values["serving"][POOL_FIELD[role]]
    places = pool["placement"]
    hosts = list(dict.fromkeys(place["host"] for place in places))
    in_spec = [host["name"] for host in values["hosts"] if host["name"] in hosts]
    rest = {name: value for name, value in pool.items() if name != "placement"}
    bare = [{k: v for k, v in place.items() if k != "ports"} for place in places]
    named = [place["host"] for place in places]
    for based in _with_bases(values, role, places):
        yield _with_pool(based, role, {"count": len(places), **rest})
        yield _with_pool(based, role, {"count": len(places), **rest, "hosts": in_spec})
        yield _with_pool(based, role, {**rest, "placement": named})
        yield _with_pool(based, role, {**rest, "placement": bare})
    yield _with_pool(values, role, {**rest, "placement": [_without_gpus(place) for place in places]})


def _without_limits(values: dict[str, Any], pool: str) -> Iterator[dict[str, Any]]:
    """The most left out first."""
    for names in LIMITS:
        kept = {name: value for name, value in values["serving"][pool].items() if name not in names}
        yield {**values, "serving": {**values["serving"], pool: kept}}


def _without_gpus(place: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in place.items() if k != "gpus"}


def _with_bases(values: dict[str, Any], role: Role, places: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The default bases, then those that begin with the lowest ports there are."""
    yield values
    lowest = {"http": min(place["ports"]["http"] for place in places)}
    for name in ("init", "alloc", "side_channel"):
        firsts = [place["ports"][name][0] for place in places if place["ports"].get(name)]
        lowest |= {name: min(firsts)} if firsts else {}
    changed = copy.deepcopy(values)
    ports = changed["serving"]["ports"]
    ports[role.value] = lowest.pop("http")
    for name, first in lowest.items():
        offset = DECODER_OFFSET.get(name, 0) if role is Role.DECODER else 0
        ports[name] = ports.get(name, first - offset)
    if all(port > 0 for port in ports.values()):
        yield changed


def _with_pool(values: dict[str, Any], role: Role, pool: dict[str, Any]) -> dict[str, Any]:
    return {**values, "serving": {**values["serving"], POOL_FIELD[role]: pool}}


def _without(values: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    """The values without one key; None when it is not there."""
    changed = copy.deepcopy(values)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or path[-1] not in holder:
        return None
    del holder[path[-1]]
    prune(changed, path[:-1])
    return changed
