"""The arrow spec -> topology."""

from __future__ import annotations

import ipaddress

from pdctl.errors import ErrorGroup, SpecError
from pdctl.knowledge.systems import DEFAULT_SYSTEM
from pdctl.spec.finding import Finding
from pdctl.spec.locate import written
from pdctl.spec.model import Cluster, Host
from pdctl.spec.model_files import ModelFiles
from pdctl.spec.pins import pinned
from pdctl.spec.rules.suppress import suppressed
from pdctl.spec.rules.table import TABLE
from pdctl.topology import kv as kv_size
from pdctl.topology.affinity import near
from pdctl.topology.byhand import nic_findings
from pdctl.topology.known import Known, contradictions, known, unchecked, unreadable
from pdctl.topology.ledger import port_findings
from pdctl.topology.memory import loads, unfit
from pdctl.topology.model import Instance, Kv, Near, Peer, ProxyPlace, Role, Topology
from pdctl.topology.placement import Placed, name_of, place, pools, uses_gpus
from pdctl.topology.ports import instance_ports, list_lengths, side_channel_per_instance
from pdctl.topology.sharing import shared_caches
from pdctl.topology.suits import suits
from pdctl.topology.transfer import flows, slow, unlike
from pdctl.topology.vocabulary import downloads_left, vocabulary


def resolve(cluster: Cluster, files: ModelFiles | None = None) -> Topology:
    """Name, place and number everything; `files` are what this machine has of the model.

    Raises ErrorGroup with every problem found: too few GPUs, GPUs or ports claimed twice, buffers that
    cannot work. The `where` of each is the key path in the spec.
    """
    topology, findings = survey(cluster, files)
    hushed = suppressed(cluster)
    errors = [f for f in findings if TABLE[f.rule].severity == "error" and f.rule not in hushed]
    if errors:
        raise ErrorGroup(
            f"{len(errors)} error{'s' if len(errors) > 1 else ''}",
            [SpecError(f.message, where=written(f.path), hint=f.hint, rule=f.rule) for f in errors],
        )
    return topology


def survey(cluster: Cluster, files: ModelFiles | None = None) -> tuple[Topology, list[Finding]]:
    """The topology as far as it can be made, and everything wrong or doubtful in it, raising nothing.

    With an error among the findings that cannot be suppressed the topology is incomplete.
    """
    pins = stack_pins(cluster)
    hosts = {host.name: _peer(cluster, host) for host in cluster.hosts}
    placed, findings = place(cluster)
    instances, lengths = _instances(cluster, pins, hosts, placed)
    proxy = _proxy(cluster, hosts)
    found = known(cluster, files)
    kv, kv_findings = _kv(cluster, found, files)
    gpus = loads(cluster, found, kv, pins, instances)
    findings += [
        *lengths,
        *port_findings(cluster, instances, proxy),
        *kv_findings,
        *kv_size.doubts(cluster, kv),
        *contradictions(cluster, found),
        *unreadable(files),
        *unchecked(cluster, found, files),
        *downloads_left(cluster, found, files),
        *suits(cluster, found, pins),
        *unfit(cluster, found, gpus),
        *slow(cluster, flows(cluster, found, instances)),
        *unlike(cluster, instances),
        *shared_caches(cluster, instances),
        *nic_findings(cluster, instances),
        *_numeric_peers(cluster, hosts),
        *_unsplit(cluster),
    ]
    topology = Topology(
        spec=cluster,
        hosts=hosts,
        instances=tuple(instances),
        proxy=proxy,
        pins=pins,
        max_model_len=found.max_model_len or 0,
        kv=kv,
        files=files,
        vocabulary=vocabulary(cluster, found, files),
        utilization={load.role: load.utilization for load in gpus if load.chosen},
    )
    return topology, findings


def stack_pins(cluster: Cluster) -> dict[str, str]:
    """The stack's versions, wherever they come from."""
    return {name: pin.version for name, pin in pinned(cluster).items()}


def _peer(cluster: Cluster, host: Host) -> Peer:
    address = host.address or host.name
    return Peer(
        name=host.name,
        address=address,
        private=host.private_address or address,
        interface=host.interface,
        gpus=host.gpus.count,
        gpu_model=host.gpus.model or "",
        os=host.os or DEFAULT_SYSTEM[(cluster.engine.kind, cluster.engine.device)],
    )


def _instances(
    cluster: Cluster, pins: dict[str, str], hosts: dict[str, Peer], placed: list[Placed]
) -> tuple[list[Instance], list[Finding]]:
    parallel = {role: pool.tensor_parallel for role, pool in pools(cluster)}
    machines = {host.name: host for host in cluster.hosts} if uses_gpus(cluster) else {}
    found: list[Instance] = []
    errors: list[Finding] = []
    for item in placed:
        ports = instance_ports(cluster, pins, item, parallel[item.role])
        errors += list_lengths(item, ports, parallel[item.role], side_channel_per_instance(pins))
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
                near=near(machines[item.host], item.gpus) if machines else Near(),
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


def _numeric_peers(cluster: Cluster, hosts: dict[str, Peer]) -> list[Finding]:
    """Peers are told by number: Debian and Ubuntu map a host's own name to 127.0.1.1, for nobody else."""
    if len(hosts) == 1:
        return []
    return [
        Finding(
            "HOST006",
            ("hosts", index),
            f"{peer.name} has no IP address for its peers: `{peer.private}` is a name",
            "give `private_address` (or `address`) as an IP address",
        )
        for index, peer in enumerate(hosts.values())
        if not _is_number(peer.private)
    ]


def _unsplit(cluster: Cluster) -> list[Finding]:
    """Prefillers with TP > 1 take one request at a time: LMCache sends split prompts again from the start."""
    pool, serving = cluster.serving.prefillers, cluster.serving
    if pool is None or pool.tensor_parallel == 1 or serving.connector != "lmcache":
        return []
    if pool.max_num_seqs in (None, 1):
        return []
    return [
        Finding(
            "KV004",
            ("serving", "prefillers", "max_num_seqs"),
            f"prefillers with tensor_parallel {pool.tensor_parallel} and lmcache must have max_num_seqs 1,"
            f" not {pool.max_num_seqs}",
            "leave it out, use tensor_parallel 1, or use `connector: nixl`",
        )
    ]


def _is_number(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def _kv(cluster: Cluster, found: Known, files: ModelFiles | None) -> tuple[Kv | None, list[Finding]]:
    serving = cluster.serving
    if serving.mode != "disaggregated" or serving.connector != "lmcache":
        return None, []
    decoders = [pool for role, pool in pools(cluster) if role is Role.DECODER]
    return kv_size.size(cluster, found, decoders[0].tensor_parallel if decoders else 1, files)
