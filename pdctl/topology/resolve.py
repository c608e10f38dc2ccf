"""The arrow spec -> topology."""

from __future__ import annotations

from pdctl.errors import ErrorGroup, SpecError
from pdctl.knowledge.stacks import STACKS
from pdctl.knowledge.versions import DEFAULT_PINS
from pdctl.spec.model import Cluster, Host
from pdctl.topology import kv as kv_size
from pdctl.topology.model import Instance, Kv, Peer, ProxyPlace, Role, Topology
from pdctl.topology.placement import Placed, name_of, place, pools
from pdctl.topology.ports import conflicts, instance_ports, list_lengths


def resolve(cluster: Cluster) -> Topology:
    """Name, place and number everything.

    Raises ErrorGroup with every problem found: too few GPUs, GPUs or ports claimed twice, buffers that
    cannot work. The `where` of each is the key path in the spec.
    """
    pins = stack_pins(cluster)
    hosts = {host.name: _peer(host) for host in cluster.hosts}
    placed, errors = place(cluster)
    instances, more = _instances(cluster, pins, hosts, placed)
    proxy = _proxy(cluster, hosts)
    kv, kv_errors = _kv(cluster)
    errors += more + conflicts(instances, proxy) + kv_errors
    if errors:
        raise ErrorGroup(f"{len(errors)} error{'s' if len(errors) > 1 else ''}", errors)
    return Topology(
        spec=cluster,
        hosts=hosts,
        instances=tuple(instances),
        proxy=proxy,
        pins=pins,
        max_model_len=kv_size.max_model_len(cluster) or 0,
        kv=kv,
    )


def stack_pins(cluster: Cluster) -> dict[str, str]:
    """The stack's versions: the engine's defaults, the named base over them, single pins over both."""
    own = cluster.stack.model_dump(exclude_none=True, exclude={"base"})
    base = STACKS[cluster.stack.base] if cluster.stack.base else {}
    defaults = DEFAULT_PINS[(cluster.engine.kind, cluster.engine.device)]
    return {**defaults, **base, **own}


def _peer(host: Host) -> Peer:
    address = host.address or host.name
    return Peer(host.name, address, host.private_address or address, host.interface, host.gpus.count)


def _instances(
    cluster: Cluster, pins: dict[str, str], hosts: dict[str, Peer], placed: list[Placed]
) -> tuple[list[Instance], list[SpecError]]:
    parallel = {role: pool.tensor_parallel for role, pool in pools(cluster)}
    found: list[Instance] = []
    errors: list[SpecError] = []
    for item in placed:
        ports = instance_ports(cluster, pins, item, parallel[item.role])
        errors += list_lengths(item, ports, parallel[item.role])
        found.append(
            Instance(
                name=name_of(item),
                role=item.role,
                index=item.index,
                host=item.host,
                address=hosts[item.host].private,
                gpus=item.gpus,
                tensor_parallel=parallel[item.role],
                ports=ports,
            )
        )
    return found, errors


def _proxy(cluster: Cluster, hosts: dict[str, Peer]) -> ProxyPlace:
    asked = cluster.serving.proxy
    host = asked.host or cluster.hosts[0].name
    lmcache = cluster.serving.mode == "disaggregated" and cluster.serving.connector == "lmcache"
    return ProxyPlace(
        host=host,
        address=hosts[host].private,
        http=asked.ports.http,
        metrics=asked.ports.metrics,
        notification=asked.ports.notification if lmcache else None,
    )


def _kv(cluster: Cluster) -> tuple[Kv | None, list[SpecError]]:
    serving = cluster.serving
    if serving.mode != "disaggregated" or serving.connector != "lmcache":
        return None, []
    decoders = [pool for role, pool in pools(cluster) if role is Role.DECODER]
    return kv_size.size(cluster, decoders[0].tensor_parallel if decoders else 1)
