"""Host x GPUs of an instance -> the NICs and NUMA nodes near them, as far as the spec declares them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pdctl.knowledge.cpus import cpu_set, cpu_text
from pdctl.knowledge.variables import (
    NIC_VARIABLES,
    UCX_EVERYTHING,
    UCX_NETWORK,
    UCX_TLS,
)
from pdctl.spec.hardware import Nic
from pdctl.spec.model import Cluster, Host
from pdctl.topology.model import Instance, Near
from pdctl.topology.placement import POOL_FIELD, uses_gpus


def near(host: Host, gpus: Sequence[int]) -> Near:
    """Nothing where one of the GPUs is near nothing: for the others' sake it would be sent far away."""
    of_each = [nics_near(host, gpu) for gpu in gpus]
    if not gpus or not all(of_each):
        return Near()
    all_of_them = [nic for nics in of_each for nic in nics]
    nodes = [{nic.numa for nic in nics if nic.numa is not None} for nics in of_each]
    cpus = [frozenset[int]().union(*(cpu_set(nic.cpus or "") for nic in nics)) for nics in of_each]
    return Near(
        nics=tuple(sorted({ucx_name(nic) for nic in all_of_them}, key=natural)),
        numa=tuple(sorted(set().union(*nodes))) if all(nodes) else (),
        cpus=cpu_text(frozenset().union(*cpus)) if all(cpus) else "",
        pairs=_pairs(host, gpus, of_each),
    )


def nics_near(host: Host, gpu: int) -> list[Nic]:
    return [nic for nic in host.nics if gpu in nic.gpus]


def ucx_name(nic: Nic) -> str:
    """UCX up to 1.20 knows a device only with its port (its pull request 11142)."""
    return f"{nic.name}:{nic.port}"


def natural(name: str) -> list[tuple[int, str]]:
    """Sorts mlx5_2 before mlx5_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def uses_rdma(cluster: Cluster, instances: Iterable[Instance], instance: Instance) -> bool:
    """Whether its KV may travel through RDMA NICs."""
    if not uses_gpus(cluster) or cluster.serving.mode != "disaggregated":
        return False
    said = environment_of(cluster, instance).get(UCX_TLS)
    if said is None:
        return any(other.host != instance.host for other in instances)  # see desired/engine.py
    return _has_rdma(said)


def environment_of(cluster: Cluster, instance: Instance) -> Mapping[str, str]:
    """What the user gives its pool."""
    pool = getattr(cluster.serving, POOL_FIELD[instance.role])
    env: Mapping[str, str] = pool.env
    return env


def chosen_by_hand(cluster: Cluster, instance: Instance) -> bool:
    return bool(NIC_VARIABLES & {*environment_of(cluster, instance), *cluster.secrets})


def _has_rdma(transports: str) -> bool:
    """A list of UCX_TLS names them, or with a `^` all but them."""
    names = {name.split(":")[0] for name in transports.lstrip("^").split(",")}
    if transports.startswith("^"):
        return not names & {"ib", *UCX_EVERYTHING}
    return any(name in UCX_EVERYTHING or UCX_NETWORK.get(name, frozenset()) - {"tcp"} for name in names)


def _pairs(host: Host, gpus: Sequence[int], of_each: Sequence[Sequence[Nic]]) -> tuple[tuple[str, str], ...]:
    """Each GPU with its one NIC; nothing unless all of them can be told so, and in one way."""
    addresses = host.gpus.pci or []
    if len(addresses) != host.gpus.count or any(len(nics) != 1 for nics in of_each):
        return ()
    ports, names = {nics[0].port for nics in of_each}, {nics[0].name for nics in of_each}
    found = [(addresses[gpu], nics[0].pci) for gpu, nics in zip(gpus, of_each, strict=True)]
    if len(ports) > 1 or len(names) == 1:
        return ()
    pairs = tuple((gpu, nic) for gpu, nic in found if nic is not None)
    return pairs if len(pairs) == len(found) else ()
