"""Values with everything pinned -> the shortest ones that still say the same places and ports."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from typing import Any

from pdctl.adopt.deployment import OWN_UNIT, Deployment
from pdctl.adopt.verdict import judge
from pdctl.topology.model import Instance, Role, Topology
from pdctl.topology.placement import POOL_FIELD
from pdctl.topology.ports import DECODER_OFFSET

# Fields that go as soon as nothing changes without them.
OPTIONAL = (
    ("serving", "lmcache", "prefiller_buffer_bytes"),
    ("serving", "lmcache", "buffer_bytes"),
    ("serving", "lmcache", "chunk_size"),
    ("serving", "lmcache"),
    ("serving", "proxy", "ports", "metrics"),
    ("serving", "proxy", "ports", "notification"),
    ("serving", "proxy", "ports", "http"),
    ("serving", "proxy", "ports"),
    ("serving", "proxy", "host"),
    ("serving", "proxy"),
)


def shrunk(values: dict[str, Any], deployment: Deployment) -> dict[str, Any]:
    """`values` are valid and say what runs; each shortening is kept if the topology stays that."""
    numbered = all(OWN_UNIT.fullmatch(engine.process.unit) for engine in deployment.engines)
    target = _meaning(judge(values).topology, numbered)
    best = copy.deepcopy(values)

    def fits(candidate: dict[str, Any]) -> bool:
        return _meaning(judge(candidate).topology, numbered) == target

    for role in deployment.roles:
        best = next((c for c in _shorter_pools(best, role) if fits(c)), best)
    for path in (*OPTIONAL, *((("serving", "ports", name)) for name in sorted(best["serving"]["ports"]))):
        candidate = _without(best, path)
        if candidate is not None and fits(candidate):
            best = candidate
    return best


def _meaning(topology: Topology | None, numbered: bool) -> Hashable:
    """What a draft must keep; the numbers of instances only where units carry them already."""
    if topology is None:
        return None
    instances = frozenset(_place(instance, numbered) for instance in topology.instances)
    return instances, topology.proxy, topology.kv


def _place(item: Instance, numbered: bool) -> Hashable:
    """Ports that nobody was promised may go with another number."""
    ports = item.ports
    own = (item.index, ports.internal_api, ports.engine) if numbered else ()
    return item.role, item.host, item.gpus, ports.http, ports.init, ports.alloc, ports.side_channel, own


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
    return changed
