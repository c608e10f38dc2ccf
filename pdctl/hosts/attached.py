"""A host's own facts -> how far its GPUs and RDMA NICs are apart, and the `nics` to declare for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pdctl.hosts.observation import Facts, Gpu, Nic, NicPort
from pdctl.knowledge.addresses import pci_text
from pdctl.knowledge.cpus import cpu_set
from pdctl.topology.affinity import natural
from pdctl.topology.pci import Device, Relation, relation

UP = "ACTIVE"  # the others: DOWN, INIT, ARMED (Linux, Documentation/ABI/stable/sysfs-class-infiniband)


class Port(NamedTuple):
    """One port of a NIC, by the name that UCX has for it."""

    nic: Nic
    port: NicPort

    @property
    def name(self) -> str:
        return f"{self.nic.name}:{self.port.port}"

    @property
    def up(self) -> bool:
        return self.port.state == UP

    @property
    def state(self) -> str:
        return f"{self.port.state or 'silent'}{f' ({self.port.physical})' if self.port.physical else ''}"


def ports(facts: Facts) -> dict[str, Port]:
    """By name, in the order that people count."""
    found = [Port(nic, port) for nic in facts.nics for port in nic.ports]
    return {each.name: each for each in sorted(found, key=lambda each: natural(each.name))}


def between(facts: Facts, gpu: int, nic: Nic) -> Relation | None:
    """None where the host does not tell."""
    there = next((each for each in facts.gpus if each.index == gpu), None)
    if there is None:
        return None
    one_node = len(facts.numa_nodes) == 1  # then devices without a node are on that one
    return relation(_device(there, one_node), _device(nic, one_node))


def nearest(facts: Facts, gpu: int) -> tuple[Relation | None, list[Port]]:
    """The ports that can be used and that no other is nearer than."""
    told = [(between(facts, gpu, each.nic), each) for each in ports(facts).values() if each.up]
    best = min((apart for apart, _ in told if apart), key=lambda apart: apart.rank, default=None)
    return best, [each for apart, each in told if apart is best and best]


def declaration(facts: Facts, *, addresses: bool) -> str:
    """The host's `nics` as one line of YAML, with PCI addresses where asked; empty if nothing is near."""
    close: dict[str, list[int]] = {}
    for gpu in sorted(each.index for each in facts.gpus):
        apart, found = nearest(facts, gpu)
        for each in found if apart is not Relation.SYS else ():
            close.setdefault(each.name, []).append(gpu)
    rows = [
        "{" + ", ".join(_entry(facts, each, close[name], addresses)) + "}"
        for name, each in ports(facts).items()
        if name in close
    ]
    return f"nics: [{', '.join(rows)}]" if rows else ""


def gpu_addresses(facts: Facts) -> list[str]:
    """By index, as Linux writes them; nothing unless the host tells all."""
    found = [pci_text(gpu.pci_bus_id) for gpu in sorted(facts.gpus, key=lambda gpu: gpu.index)]
    return found if all(found) else []


def _entry(facts: Facts, each: Port, gpus: Sequence[int], addresses: bool) -> Iterator[str]:
    yield f"name: {each.nic.name}"
    if each.port.port != 1:
        yield f"port: {each.port.port}"
    yield f"gpus: [{', '.join(map(str, gpus))}]"
    places = {(gpu.numa, gpu.cpus) for gpu in facts.gpus if gpu.index in gpus}
    node, cpus = next(iter(places))
    if len(facts.numa_nodes) > 1 and len(places) == 1 and node >= 0:
        yield f"numa: {node}"
        if cpu_set(cpus):
            yield f'cpus: "{cpus}"'
    if addresses and each.nic.pci:
        yield f'pci: "{each.nic.pci}"'


def _device(at: Gpu | Nic, one_node: bool) -> Device:
    return Device(at.path, 0 if one_node and at.numa < 0 else at.numa)
