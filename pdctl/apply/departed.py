"""The present spec x that of the newest generation -> a warning for hosts that left with engines on them."""

from __future__ import annotations

from pdctl.errors import ErrorGroup
from pdctl.hosts.observation import Observation
from pdctl.spec.load import parse
from pdctl.spec.model import Cluster
from pdctl.topology import resolve
from pdctl.topology.model import Role, Topology


def departed_warnings(now: Cluster, seen: Observation) -> list[str]:
    """One line for each: no plan reaches them, so what was put there stays and goes on."""
    number = seen.newest_spec.number if seen.newest_spec else 0
    return [
        f"{host} left the spec, but generation {number} put {', '.join(names)} there, and nothing stops them:"
        " put it back without instances and apply, then take it out; or destroy before it leaves"
        for host, names in departed(now, seen).items()
    ]


def departed(now: Cluster, seen: Observation) -> dict[str, list[str]]:
    """{host that the newest generation had and the spec has not: what was put there}."""
    then = _then(now, seen)
    if then is None:
        return {}
    present = {host.name for host in now.hosts} | {host.address for host in now.hosts}
    gone = [host.name for host in then.spec.hosts if not present & {host.name, host.address}]
    return {host: names for host in gone if (names := _units(then, host))}


def _then(now: Cluster, seen: Observation) -> Topology | None:
    """None before the first generation, and where this pdctl does not take its spec any more: then nobody can
    know here what it had."""
    if seen.newest_spec is None:
        return None
    try:
        spec = parse(seen.newest_spec.text, f"generation {seen.newest_spec.number}")
        return (
            resolve(spec) if {host.name for host in spec.hosts} - {host.name for host in now.hosts} else None
        )
    except ErrorGroup:
        return None


def _units(then: Topology, host: str) -> list[str]:
    names = [each.name for each in then.instances if each.host == host]
    return [*names, Role.PROXY.value] if then.proxy.host == host else names
