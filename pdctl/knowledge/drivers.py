"""NVIDIA's driver as packages: what goes with it, what carries which pin, what must not move on its own."""

from __future__ import annotations

import re

# Names as Ubuntu's archive and NVIDIA's repositories have them (their package lists, branches 535 to 590).
# All that is built from one driver release carries its version: kernel modules, libraries, tools, Fabric
# Manager. One of them alone at another version keeps CUDA or Fabric Manager from starting.
FAMILY = (
    "nvidia-*",
    "libnvidia-*",
    "cuda-drivers*",
    "xserver-xorg-video-nvidia*",
    "libnvsdm*",
)
# They match these names and go by versions of their own, or leave a package of each version behind.
NOT_OF_THE_FAMILY = (
    "nvidia-settings",
    "nvidia-prime*",
    "nvidia-modprobe",
    "nvidia-xconfig",
    "nvidia-firmware-*",
    "nvidia-container-*",
    "nvidia-docker*",
    "nvidia-cuda-*",
    "libnvidia-container*",
    "libnvidia-egl-*",
    "libnvidia-ml-dev",
)
# The NVLink subnet manager goes by dates (2025.10.14-1): NVIDIA's CUDA repository.
SUBNET_MANAGER = "nvlsm"
# Where NVIDIA's own repositories drop the branch from names (NVIDIA driver installation guide, release 590).
NO_BRANCH_SINCE = 590
# A metapackage of the distribution's generic kernel, which brings the headers of every kernel that follows.
HEADERS = {
    "debian-12": "linux-headers-amd64",
    "ubuntu-22.04": "linux-headers-generic",
    "ubuntu-24.04": "linux-headers-generic",
}


# Who else builds packages of these names, as their Release files say (apt_preferences(5), `release`). Of two
# builds of one upstream version apt takes the higher revision, 580.95.05-1 of NVIDIA's CUDA repository before
# 580.95.05-0ubuntu0.22.04.2 of Ubuntu's archive, and the two do not go together.
NVIDIA_CUDA, UBUNTU, DEBIAN = "l=NVIDIA CUDA", "o=Ubuntu", "o=Debian"


def rivals(version: str) -> tuple[str, ...]:
    """Whose builds the pinned one must not be mixed with; none where its version does not tell whose it is.

    Ubuntu's updates name their release (`-0ubuntu0.22.04.2`), NVIDIA's have a plain revision (`-1`), or
    `-0ubuntu1`, which Ubuntu's development release has as well.
    """
    revision = version.rpartition("-")[2]
    if re.match(r"\d+ubuntu0\.", revision):
        return (NVIDIA_CUDA,)
    return (UBUNTU, DEBIAN) if revision.isdigit() else ()


# What packages of kernels and their metapackages begin with (Debian's and Ubuntu's package lists).
KERNELS = ("linux-image-", "linux-headers-", "linux-modules-", "linux-generic")


def kernel_packages(system: str) -> tuple[str, ...]:
    """The beginnings of one kernel's packages; Debian has its modules in the image."""
    return KERNELS[:2] if system.startswith("debian") else KERNELS[:3]


def branch(version: str) -> int:
    """580 of `580.95.05-0ubuntu0.22.04.2`; 0 where the text holds no number."""
    found = re.match(r"(?:\d+:)?(\d+)", version)
    return int(found[1]) if found else 0


def driver_package(version: str) -> str:
    """What a pinned driver is installed from unless the spec names another: open modules, server branch."""
    return f"nvidia-driver-{branch(version)}-server-open"


def fabric_manager_package(version: str) -> str:
    """Ubuntu keeps branch numbers in names, NVIDIA's own builds (no `ubuntu` in their version) do not."""
    if branch(version) >= NO_BRANCH_SINCE and "ubuntu" not in version:
        return "nvidia-fabricmanager"
    return f"cuda-drivers-fabricmanager-{branch(version)}"


def cuda_packages(version: str) -> tuple[str, ...]:
    """Of the toolkit only what builds against it: `13.0.88-1` is a component's version, of CUDA 13.0."""
    major, minor = [*version.split("-")[0].split("."), "0"][:2]
    return (f"cuda-nvcc-{major}-{minor}", f"cuda-cudart-dev-{major}-{minor}")
