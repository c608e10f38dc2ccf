"""Rules on the NICs that hosts declare."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.knowledge.addresses import pci_key
from pdctl.spec.finding import Finding, Path
from pdctl.spec.model import Cluster, Host

LOOK = "see `lspci -D` there, or what `pdctl validate --hosts` prints"


def ports_are_declared_once(cluster: Cluster) -> Iterator[Finding]:
    for path, host in _with_nics(cluster):
        first: dict[tuple[str, int], int] = {}
        for k, nic in enumerate(host.nics):
            owner = first.setdefault((nic.name, nic.port), k)
            if owner != k:
                yield Finding(
                    "NIC001",
                    (*path, k),
                    f"`{nic.name}:{nic.port}` is already nics[{owner}]",
                    "list all GPUs near it in one entry, or give the other's `port`",
                )


def near_gpus_exist(cluster: Cluster) -> Iterator[Finding]:
    for path, host in _with_nics(cluster) if _on_gpus(cluster) else ():
        for k, nic in enumerate(host.nics):
            for j, gpu in enumerate(nic.gpus):
                where = (*path, k, "gpus", j)
                if gpu >= host.gpus.count:
                    there = f"only 0 to {host.gpus.count - 1}" if host.gpus.count else "it has none"
                    message = f"host `{host.name}` has no GPU {gpu}: {there}"
                    yield Finding("NIC002", where, message, "correct the index, or the host's `gpus`")
                elif gpu in nic.gpus[:j]:
                    yield Finding("NIC003", where, f"GPU {gpu} is listed twice", "list each GPU once")


def addresses_agree(cluster: Cluster) -> Iterator[Finding]:
    """A device has one PCI address, and an address one device."""
    for i, host in enumerate(cluster.hosts):
        if host.gpus.pci is None and not any(nic.pci for nic in host.nics):
            continue
        yield from _gpu_addresses(("hosts", i, "gpus", "pci"), host)
        owner: dict[tuple[int, ...], str] = {
            pci_key(address): f"GPU {gpu}" for gpu, address in enumerate(host.gpus.pci or ())
        }
        of_name: dict[str, str] = {}
        for k, nic in enumerate(host.nics):
            if nic.pci is None:
                continue
            where: Path = ("hosts", i, "nics", k, "pci")
            said = of_name.setdefault(nic.name, nic.pci)
            taken = owner.setdefault(pci_key(nic.pci), nic.name)
            if pci_key(said) != pci_key(nic.pci):
                message = f"`{nic.name}` is at {said} in another entry, not {nic.pci}"
                yield Finding("NIC005", where, message, "ports of one device have one address: correct it")
            elif taken != nic.name:
                yield Finding("NIC005", where, f"{nic.pci} is already the address of {taken}", LOOK)


def the_network_is_as_fast_as_its_nics(cluster: Cluster) -> Iterator[Finding]:
    for i, host in enumerate(cluster.hosts):
        if host.nics and host.network is not None and host.network.kind == "ethernet":
            yield Finding(
                "NIC006",
                ("hosts", i, "network"),
                f"says that KV goes over TCP, and `nics` has {host.nics[0].name}, which UCX writes through",
                "set `kind: roce` or `kind: ib`, or remove `nics`",
            )


def nics_have_engines(cluster: Cluster) -> Iterator[Finding]:
    if _on_gpus(cluster):
        return
    what = "the simulator" if cluster.engine.kind == "simulator" else "the CPU engine"
    for i, host in enumerate(cluster.hosts):
        if host.nics:
            yield Finding(
                "USE007", ("hosts", i, "nics"), f"has no effect with {what}", "remove it", on_key=True
            )


def _gpu_addresses(path: Path, host: Host) -> Iterator[Finding]:
    addresses = host.gpus.pci or []
    if addresses and len(addresses) != host.gpus.count:
        yield Finding(
            "NIC005",
            path,
            f"lists {len(addresses)} addresses, and `count` is {host.gpus.count}",
            "list one for each GPU, as `nvidia-smi --query-gpu=index,pci.bus_id --format=csv` does",
        )
    first: dict[tuple[int, ...], int] = {}
    for gpu, address in enumerate(addresses):
        owner = first.setdefault(pci_key(address), gpu)
        if owner != gpu:
            yield Finding("NIC005", (*path, gpu), f"{address} is already the address of GPU {owner}", LOOK)


def _on_gpus(cluster: Cluster) -> bool:
    return cluster.engine.kind == "vllm" and cluster.engine.device == "cuda"


def _with_nics(cluster: Cluster) -> Iterator[tuple[Path, Host]]:
    return ((("hosts", i, "nics"), host) for i, host in enumerate(cluster.hosts) if host.nics)
