"""Instance x what is near its GPUs -> the variables that keep its KV on those NICs."""

from __future__ import annotations

from pdctl.knowledge import versions
from pdctl.knowledge.variables import (
    GPU_NIC_MAP,
    NIC_MAP_VARIABLES,
    UCX_NET_DEVICES,
    UCX_TLS,
    UCX_WITHOUT_TCP,
)
from pdctl.knowledge.versions import at_least
from pdctl.topology.affinity import chosen_by_hand, uses_rdma
from pdctl.topology.model import Instance, Topology

RDMA = ("ib", "roce")  # kinds of `network`


def net_devices(topology: Topology, instance: Instance) -> dict[str, str]:
    """Nothing where no NIC is declared, none is used, or the user chose one."""
    close = instance.near
    if not close.nics or chosen_by_hand(topology.spec, instance):
        return {}
    if not uses_rdma(topology.spec, topology.instances, instance):
        return {}
    if close.pairs and at_least(topology.pins["vllm"], versions.NIC_PER_WORKER):
        # vLLM puts a worker's NIC in front of what UCX_NET_DEVICES holds: it must hold nothing.
        port = close.nics[0].rpartition(":")[2]
        pairs = ",".join(f"{gpu}={nic}" for gpu, nic in close.pairs)
        return {GPU_NIC_MAP: pairs, NIC_MAP_VARIABLES: f"{UCX_NET_DEVICES}:{port}"}
    return {UCX_NET_DEVICES: ",".join(close.nics)}


def without_tcp(topology: Topology) -> dict[str, str]:
    """Where every host with engines declares a network of RDMA: UCX takes TCP in its place, and says nothing
    (openucx issue 10854)."""
    used = {instance.host for instance in topology.instances}
    networks = [host.network for host in topology.spec.hosts if host.name in used]
    declared = all(network is not None and network.kind in RDMA for network in networks)
    return {UCX_TLS: UCX_WITHOUT_TCP} if declared else {}
