"""Packages whose new version is in force only after a reboot, and how versions of a driver compare."""

from __future__ import annotations

from dataclasses import dataclass

# NVIDIA's driver packages begin so (Ubuntu and NVIDIA package lists, branches 535 to 580).
DRIVER = "nvidia-driver-"


@dataclass(frozen=True)
class Reboot:
    """`when_new`: also where nothing of it was installed before."""

    beginning: str
    when_new: bool
    why: str


REBOOTS = (
    # The loaded kernel module stays until the next boot, and Fabric Manager aborts when its version is
    # another (NVIDIA Fabric Manager user guide, "Fabric Manager startup").
    Reboot(DRIVER, False, "the loaded driver stays the old one until then"),
    # The kernel that runs is chosen at boot.
    Reboot("linux-image-", True, "the running kernel stays the old one until then"),
    # OFED replaces RDMA modules of the kernel that are in use (NVIDIA DOCA installation guide, "restart the
    # driver": /etc/init.d/openibd restart, or a reboot).
    Reboot("doca-ofed", False, "the loaded RDMA modules stay the old ones until then"),
)


def upstream(version: str) -> str:
    """`580.95.05` of `1:580.95.05-0ubuntu0.22.04.2`: what driver, library and Fabric Manager share."""
    return version.rpartition(":")[2].split("-")[0].split("+")[0]
