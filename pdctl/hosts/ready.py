"""What a host gives engines on GPUs beside its driver: IOMMU, PCIe switches, limits, huge pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class HugePages:
    """How many are reserved and free; the size of one."""

    total: int = 0
    free: int = 0
    size_kib: int = 0


@dataclass(frozen=True)
class Ready:
    """`iommu` are the kinds of its domains that GPUs and NICs are in, `redirects` the bridges above them that
    send traffic between them up to the root, `memlock` and `nofile` the most that a service can get."""

    pci_gpus: int = 0
    iommu: tuple[str, ...] = ()
    redirects: tuple[str, ...] = ()
    open_module: bool = False  # NVIDIA's open kernel module is loaded
    huge_pages: HugePages = HugePages()
    memlock: str = ""
    nofile: str = ""
    clock_kept: bool | None = None  # by NTP or the like; not known of containers


@dataclass(frozen=True)
class Rdma:
    """OFED in its own words, and what the kernel says of an nvidia-peermem that it did not take."""

    ofed: str = ""
    refused: str = ""


@dataclass(frozen=True)
class Ucx:
    """What the UCX of one engine offers as its user and with its variables: transports and their devices.
    `warnings` are what it says of the list that the engine gives it."""

    source: str = ""  # which one, and its version
    transports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Deep:
    """What takes a host longer to find out, so that only who asks for it gets it.

    `links` says by pairs of GPUs (`0-1`) what is between them, `inactive` how many NVLinks of a GPU are down,
    `fabric` state and status of each GPU's registration, `names` the addresses of names that it needs.
    """

    links: Mapping[str, str] = field(default_factory=dict)
    inactive: Mapping[int, int] = field(default_factory=dict)
    fabric: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    fabric_manager: str = ""  # its service's state
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ucx: Mapping[str, Ucx] = field(default_factory=dict)  # by instance, where it has one already
