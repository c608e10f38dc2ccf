"""Packages whose new version is in force only after a reboot, and how versions of a driver compare."""

from __future__ import annotations

from dataclasses import dataclass

# NVIDIA's driver packages begin so (Ubuntu and NVIDIA package lists, branches 535 to 580).
DRIVER = "nvidia-driver-"
# One kernel by its release (Debian and Ubuntu name packages so: linux-image-6.8.0-64-generic).
KERNEL = "linux-image-"
OFED = "doca-ofed"


@dataclass(frozen=True)
class Reboot:
    """Packages whose name has this beginning, when another version of them is loaded."""

    beginning: str
    why: str


REBOOTS = (
    # The loaded kernel module stays until the next boot, and Fabric Manager aborts when its version is
    # another (NVIDIA Fabric Manager user guide, "Fabric Manager startup").
    Reboot(DRIVER, "the loaded driver stays the old one until then"),
    # OFED replaces RDMA modules of the kernel that are in use (NVIDIA DOCA installation guide, "restart the
    # driver": /etc/init.d/openibd restart, or a reboot).
    Reboot(OFED, "the loaded RDMA modules stay the old ones until then"),
)


def upstream(version: str) -> str:
    """`580.95.05` of `1:580.95.05-0ubuntu0.22.04.2`: what driver, library and Fabric Manager share."""
    return version.rpartition(":")[2].split("-")[0].split("+")[0]
