"""What this host gives engines on GPUs beside its driver, read from /sys and /proc below `root`."""

from __future__ import annotations

import ctypes
import glob
import os
import re
import struct
from collections.abc import Iterable

from ansible.module_utils.pdctl_observe_pci import ADDRESS
from ansible.module_utils.pdctl_rows import Row

NVIDIA = "0x10de"
# VGA and 3D controllers (PCI code and ID assignment specification, base class 03).
DISPLAYS = ("0x0300", "0x0302")
# PCI Express base specification, access control services: the extended capability, its control word, and in
# that the bits that send what one device writes to another up to the root (request and completion redirect,
# egress control).
ACS, ACS_CONTROL, ACS_REDIRECT = 0x000D, 6, 0x04 | 0x08 | 0x20
EXTENDED = 0x100  # where the list of extended capabilities begins
CLOCK_ERROR_US = (
    16_000_000  # from here on the kernel calls it unsynchronised (linux/timex.h, NTP_PHASE_LIMIT)
)
RESOURCE = 24  # CAP_SYS_RESOURCE: its holder raises limits above its own (capabilities(7))
ALL_USERS = ["0", "0", "4294967295"]  # of /proc/PID/uid_map outside any user namespace


def ready_facts(devices: Iterable[str], root: str = "/") -> Row:
    """`devices` are the folders of GPUs and NICs below /sys; empty ones tell nothing."""
    folders = [os.path.join(root, "sys", device.lstrip("/")) for device in devices if device]
    return {
        "pci_gpus": pci_gpus(root),
        "iommu": sorted({kind for kind in map(_iommu, folders) if kind}),
        "redirects": redirects(folders),
        "open_module": "Open Kernel Module" in _text(os.path.join(root, "proc/driver/nvidia/version")),
        "huge_pages": huge_pages(_text(os.path.join(root, "proc/meminfo"))),
        "clock_kept": clock_kept(root),
        **service_limits(root),
    }


class Timex(ctypes.Structure):
    """The kernel's clock and how far off it may be, in microseconds (adjtimex(2))."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        *((name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")),
        ("status", ctypes.c_int),
        *((name, ctypes.c_long) for name in ("constant", "precision", "tolerance")),
        *((name, ctypes.c_long) for name in ("seconds", "part", "tick")),
        ("rest", ctypes.c_long * 16),
    ]


def clock() -> Timex:
    """Read, not set: `modes` is 0."""
    found = Timex()
    ctypes.CDLL(None).adjtimex(ctypes.byref(found))
    return found


def clock_kept(root: str = "/") -> bool | None:
    """Whether something keeps the clock in time, as `timedatectl` tells it (systemd, basic/time-util.c).

    None in a container, where it is the machine's clock that counts.
    """
    if os.path.exists(os.path.join(root, "run/systemd/container")):
        return None
    return int(clock().maxerror) < CLOCK_ERROR_US


def pci_gpus(root: str = "/") -> int:
    """How many GPUs of NVIDIA are on the bus, with a driver or without."""
    found = glob.glob(os.path.join(glob.escape(root), "sys/bus/pci/devices/*"))
    ours = [path for path in found if _text(os.path.join(path, "vendor")) == NVIDIA]
    return sum(_text(os.path.join(path, "class")).startswith(DISPLAYS) for path in ours)


def redirects(folders: Iterable[str]) -> list[str]:
    """Bridges above these devices that send traffic between them up to the root, by their PCI addresses."""
    above = {bridge for folder in folders for bridge in _bridges(folder)}
    return sorted(os.path.basename(b) for b in above if redirect(_bytes(os.path.join(b, "config"))))


def redirect(config: bytes) -> bool:
    """Of a device's configuration space; who is not root sees only its first 64 bytes."""
    at = EXTENDED
    for _ in range(len(config) // 8):  # the list may be a ring where a device is gone
        if at < EXTENDED or at + 8 > len(config):
            return False
        (header,) = struct.unpack_from("<I", config, at)
        if header & 0xFFFF == ACS:
            (control,) = struct.unpack_from("<H", config, at + ACS_CONTROL)
            return bool(control & ACS_REDIRECT)
        at = header >> 20
    return False


def huge_pages(text: str) -> Row:
    """Of /proc/meminfo: how many are reserved and free, and the size of one in KiB."""
    pairs = dict(re.findall(r"^(\w+):\s+(\d+)", text, re.MULTILINE))
    names = {"total": "HugePages_Total", "free": "HugePages_Free", "size_kib": "Hugepagesize"}
    return {name: int(pairs.get(field, 0)) for name, field in names.items()}


def service_limits(root: str = "/") -> Row:
    """The most that a unit of systemd can get, whatever it asks for: `unlimited`, a number, or empty."""
    proc = os.path.join(root, "proc")
    held = dict(re.findall(r"^(Max [a-z ]+?)\s{2,}\S+\s+(\S+)", _text(f"{proc}/1/limits"), re.MULTILINE))
    memory, files = held.get("Max locked memory", ""), held.get("Max open files", "")
    if _may_raise(proc):
        return {"memlock": "unlimited", "nofile": _text(f"{proc}/sys/fs/nr_open") or files}
    return {"memlock": memory, "nofile": files}


def _may_raise(proc: str) -> bool:
    found = re.search(r"^CapEff:\s+([0-9a-f]+)", _text(f"{proc}/1/status"), re.MULTILINE)
    able = int(found.group(1), 16) >> RESOURCE & 1 if found else 0
    return bool(able) and _text(f"{proc}/1/uid_map").split() == ALL_USERS


def _iommu(folder: str) -> str:
    """`identity`, `DMA` or `DMA-FQ` (Linux, Documentation/ABI/testing/sysfs-kernel-iommu_groups)."""
    return _text(os.path.join(folder, "iommu_group/type"))


def _bridges(folder: str) -> list[str]:
    found = []
    folder = os.path.dirname(folder)
    while ADDRESS.fullmatch(os.path.basename(folder)):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def _text(path: str) -> str:
    return _bytes(path).decode("utf-8", "replace").strip()


def _bytes(path: str) -> bytes:
    """Nothing where there is no such file, or where the kernel does not answer."""
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError:
        return b""
