"""Where this host's GPUs and RDMA NICs are attached, read from /sys; `root` stands in its place in tests."""

from __future__ import annotations

import os
import re

from ansible.module_utils.pdctl_rows import Row

SYS = "/sys"
ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")


def rdma_nics(root: str = SYS) -> list[Row]:
    """A row for each RDMA device: its place, and what each of its ports says."""
    folder = os.path.join(root, "class/infiniband")
    return [
        {
            "name": name,
            **_place(root, os.path.join(folder, name, "device")),
            "ports": _ports(os.path.join(folder, name, "ports")),
        }
        for name in _names(folder)
    ]


def gpu_place(bus_id: str, root: str = SYS) -> Row:
    """Where the GPU is that nvidia-smi shows at `bus_id`, e.g. 00000000:1B:00.0."""
    match = ADDRESS.fullmatch(bus_id.lower())
    if not match:
        return _place(root, "")
    domain, rest = int(match.group(1), 16), bus_id.lower().split(":", 1)[1]
    return _place(root, os.path.join(root, "bus/pci/devices", f"{domain:04x}:{rest}"))


def numa_nodes(root: str = SYS) -> list[int]:
    """The nodes that the kernel knows; none where it does not count them."""
    names = _names(os.path.join(root, "devices/system/node"))
    return sorted(int(name[4:]) for name in names if re.fullmatch(r"node\d+", name))


def _place(root: str, link: str) -> Row:
    """Address, folder below /sys, NUMA node (-1: not known) and its CPUs, of a PCI device."""
    real = os.path.realpath(link) if link and os.path.exists(link) else ""
    name = os.path.basename(real)
    if not ADDRESS.fullmatch(name):  # a NIC in software, or a device that is gone
        return {"pci": "", "path": "", "numa": -1, "cpus": ""}
    numa = _text(os.path.join(real, "numa_node"))
    return {
        "pci": name,
        "path": "/" + os.path.relpath(real, os.path.realpath(root)),
        "numa": int(numa) if re.fullmatch(r"\d+", numa) else -1,
        "cpus": _text(os.path.join(real, "local_cpulist")),
    }


def _ports(folder: str) -> list[Row]:
    return [
        {
            "port": int(name),
            "state": _state(os.path.join(folder, name, "state")),
            "physical": _state(os.path.join(folder, name, "phys_state")),
            "link": _text(os.path.join(folder, name, "link_layer")),
            "rate": _text(os.path.join(folder, name, "rate")),
        }
        for name in sorted((name for name in _names(folder) if name.isdigit()), key=int)
    ]


def _state(path: str) -> str:
    """`ACTIVE` of `4: ACTIVE`."""
    return _text(path).rpartition(": ")[2]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _text(path: str) -> str:
    """Empty where there is no such file, or where the driver does not answer."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return ""
