"""Debian packages: those the stack pins, and those the runtime needs."""

from __future__ import annotations

from collections.abc import Mapping

from pdctl.desired.render import render
from pdctl.knowledge.gpus import GPUS
from pdctl.spec.model import Host
from pdctl.state import File, Package, Resource
from pdctl.state.digest import content_digest
from pdctl.topology.model import Topology
from pdctl.topology.placement import uses_gpus

# Pin of the stack -> the package that carries it, and what decides whether a host needs it.
# Names: Ubuntu's and NVIDIA's package lists for driver branch 580, CUDA 13.0 and DOCA 3.0.
FABRIC_MANAGER = "cuda-drivers-fabricmanager-580"
CUDA_PACKAGES = ("cuda-nvcc-13-0", "cuda-cudart-dev-13-0")
# What the CPU engine's workers load at start: torch's CPU build links libnuma.so.1.
CPU_ENGINE_PACKAGES = ("libnuma1",)


def packages(topology: Topology, host: Host) -> list[Resource]:
    """Packages of one host, and the apt pins that keep them at the asked version."""
    spec = topology.spec
    if spec.engine.kind == "vllm" and spec.engine.device == "cpu":
        return [Package(name, deb=name) for name in CPU_ENGINE_PACKAGES]
    if not uses_gpus(spec):
        return []
    pinned = _stack_packages(topology.pins, host)
    return [*([_preferences(topology.cluster, pinned)] if pinned else []), *pinned]


def _stack_packages(pins: Mapping[str, str], host: Host) -> list[Package]:
    found: list[Package] = []
    if "doca_ofed" in pins:
        found.append(Package("doca-ofed", pins["doca_ofed"], hold=True))
    if "driver" in pins:
        name = pins.get("driver_package", "nvidia-driver-580-server-open")
        found.append(Package(name, pins["driver"], hold=True))
    known = GPUS.get(host.gpus.model or "")
    if "fabricmanager" in pins and known and known.nvswitch:
        found.append(Package(FABRIC_MANAGER, pins["fabricmanager"], hold=True))
    if "cuda" in pins:
        found += [Package(name, pins["cuda"], hold=True) for name in CUDA_PACKAGES]
    return found


def _preferences(cluster: str, pinned: list[Package]) -> File:
    content = render("apt-preferences.j2", cluster=cluster, packages=pinned)
    return File(f"/etc/apt/preferences.d/pdctl-{cluster}", content_digest(content), content=content)
