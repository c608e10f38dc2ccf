"""NICs that a user chose for a whole role, GPUs that no declared NIC is near -> what is wrong with that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pdctl.knowledge.variables import UCX_NET_DEVICES
from pdctl.spec.finding import Finding, Path
from pdctl.spec.model import Cluster, Host
from pdctl.spec.rules.rule import guess
from pdctl.topology.affinity import chosen_by_hand, environment_of, natural, nics_near, ucx_name, uses_rdma
from pdctl.topology.model import Instance
from pdctl.topology.placement import POOL_FIELD

EVERY = "all"
REMOVE = f"remove `{UCX_NET_DEVICES}`: pdctl sets it for each instance"


class Choice(NamedTuple):
    """A NIC that an instance is told to use, where that is written, and its host's place in the spec."""

    nic: str
    instance: Instance
    path: Path
    host: int


def choices(cluster: Cluster, some: Iterable[Instance], every: Sequence[Instance]) -> Iterator[Choice]:
    """The NICs that are named by hand to some instances that use RDMA; patterns name none."""
    if all(UCX_NET_DEVICES not in _env(cluster, field) for field in POOL_FIELD.values()):
        return
    places = {host.name: i for i, host in enumerate(cluster.hosts)}
    for instance in some:
        said = environment_of(cluster, instance).get(UCX_NET_DEVICES, "")
        if not said or said.startswith("^") or not uses_rdma(cluster, every, instance):
            continue
        path = ("serving", POOL_FIELD[instance.role], "env", UCX_NET_DEVICES)
        for nic in filter(None, (name.strip() for name in said.split(","))):
            if nic != EVERY and not {"*", "["} & set(nic):
                yield Choice(nic, instance, path, places[instance.host])


def nic_findings(cluster: Cluster, instances: Sequence[Instance]) -> Iterator[Finding]:
    """Each once for a role, however many of its instances are alike."""
    told: set[tuple[str, Path, str]] = set()
    for choice in choices(cluster, instances, instances):
        host = cluster.hosts[choice.host]
        found = _unknown(choice, host) or _far(choice, host) if host.nics else None
        if found and (key := (found.rule, choice.path, choice.nic)) not in told:
            told.add(key)
            yield found
    yield from _lonely(cluster, instances)


def _unknown(choice: Choice, host: Host) -> Finding | None:
    known = sorted({ucx_name(nic) for nic in host.nics}, key=natural)
    if choice.nic in known or choice.nic == host.interface:
        return None
    hint = guess(choice.nic, known)
    if any(name.startswith(f"{choice.nic}:") for name in known):
        hint = "UCX up to 1.20 knows a device only with its port; " + hint
    return Finding(
        "NIC008", choice.path, f"`nics` of {host.name} has no `{choice.nic}`, only {', '.join(known)}", hint
    )


def _far(choice: Choice, host: Host) -> Finding | None:
    """A NIC that is near one of its GPUs serves that one."""
    mine = choice.instance.gpus
    near = {gpu: [ucx_name(nic) for nic in nics_near(host, gpu)] for gpu in mine}
    if choice.nic == host.interface or any(choice.nic in names for names in near.values()):
        return None
    gpu = next((gpu for gpu in mine if near[gpu]), None)
    if gpu is None:
        return None
    return Finding(
        "NIC007",
        choice.path,
        f"{choice.instance.name} has GPU {gpu} of {host.name}, and `{choice.nic}` is far from it"
        f" ({_relation(host, choice.nic, gpu)}); near it: {', '.join(near[gpu])}",
        REMOVE,
    )


def _relation(host: Host, name: str, gpu: int) -> str:
    """In the words of `nvidia-smi topo -m`, as far as the declared nodes tell."""
    of_nic = {nic.numa for nic in host.nics if ucx_name(nic) == name} - {None}
    of_gpu = {nic.numa for nic in nics_near(host, gpu)} - {None}
    if not of_nic or not of_gpu:
        return "not among its `gpus`"
    return "NODE, on the same NUMA node" if of_nic & of_gpu else "SYS, on another NUMA node"


def _lonely(cluster: Cluster, instances: Sequence[Instance]) -> Iterator[Finding]:
    places = {host.name: i for i, host in enumerate(cluster.hosts) if host.nics}
    told: set[str] = set()
    for instance in instances if places else ():
        if instance.host not in places or instance.host in told or chosen_by_hand(cluster, instance):
            continue
        host = cluster.hosts[places[instance.host]]
        lonely = [str(gpu) for gpu in instance.gpus if not nics_near(host, gpu)]
        if lonely and uses_rdma(cluster, instances, instance):
            told.add(host.name)
            yield Finding(
                "NIC004",
                ("hosts", places[host.name], "nics"),
                f"GPU {', '.join(lonely)} of {host.name} is near none of these, so {instance.name} is left to"
                " UCX's own choice",
                "add each GPU to the `gpus` of its nearest NIC",
            )


def _env(cluster: Cluster, field: str) -> dict[str, str]:
    pool = getattr(cluster.serving, field)
    return pool.env if pool else {}
