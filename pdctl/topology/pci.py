"""Two PCI devices of one host -> how far apart they are, in the words of `nvidia-smi topo -m`."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

# A host bridge in a path of /sys/devices; before it stand VMBUS and the like, in virtual machines.
BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")


class Relation(StrEnum):
    """Nearest first."""

    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NODE = "NODE"
    SYS = "SYS"

    @property
    def rank(self) -> int:
        return list(Relation).index(self)

    @property
    def words(self) -> str:
        return f"{self.value}, {WORDS[self]}"


WORDS = {
    Relation.PIX: "on one PCIe switch",
    Relation.PXB: "over several PCIe switches",
    Relation.PHB: "over a host bridge of the CPU",
    Relation.NODE: "over two host bridges of one NUMA node",
    Relation.SYS: "on another NUMA node",
}


class Device(NamedTuple):
    """Where it is: its folder in /sys/devices, and its NUMA node, -1 where the host does not say."""

    path: str
    numa: int = -1


def relation(one: Device, other: Device) -> Relation | None:
    """None when the paths do not tell: no PCI device, or two host bridges of unknown nodes."""
    mine, theirs = _steps(one.path), _steps(other.path)
    if not mine or not theirs:
        return None
    shared = 0
    while shared < min(len(mine), len(theirs)) and mine[shared] == theirs[shared]:
        shared += 1
    if shared == 0:
        if min(one.numa, other.numa) < 0:
            return None
        return Relation.NODE if one.numa == other.numa else Relation.SYS
    if shared == 1:
        return Relation.PHB
    # What is left of each path: bridges, then the device. A switch is its upstream port, which is shared,
    # and a downstream port for each device.
    bridges = max(len(mine), len(theirs)) - shared - 1
    return Relation.PIX if bridges <= 1 else Relation.PXB


def _steps(path: str) -> list[str]:
    """From the host bridge down to the device."""
    parts = path.strip("/").split("/")
    first = next((i for i, part in enumerate(parts) if BRIDGE.fullmatch(part)), None)
    found = [] if first is None else parts[first:]
    return found if len(found) > 1 else []
