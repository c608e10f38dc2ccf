"""Debian packages: those the stack pins, and those the runtime needs; and what keeps them so."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from pdctl.desired.render import rendered
from pdctl.knowledge.drivers import (
    FAMILY,
    HEADERS,
    KERNELS,
    NOT_OF_THE_FAMILY,
    SUBNET_MANAGER,
    cuda_packages,
    driver_package,
    fabric_manager_package,
    kernel_packages,
    rivals,
)
from pdctl.knowledge.gpus import GPUS
from pdctl.knowledge.reboots import KERNEL, upstream
from pdctl.spec.model import Host
from pdctl.state import File, Package, Resource
from pdctl.topology.model import Topology
from pdctl.topology.placement import uses_gpus

# What the CPU engine's workers load at start: torch's CPU build links libnuma.so.1.
CPU_ENGINE_PACKAGES = ("libnuma1",)
# Read after the distribution's own 50unattended-upgrades; lists of several files add up (apt.conf(5)).
UNATTENDED = "/etc/apt/apt.conf.d/52pdctl-{}-unattended-upgrades"
PREFERENCES = "/etc/apt/preferences.d/pdctl-{}"
NOUVEAU = "/etc/modprobe.d/pdctl-{}-nouveau.conf"


def packages(topology: Topology, host: Host) -> list[Resource]:
    """Packages of one host, and the files that keep them, and the driver in its place, as they are."""
    spec = topology.spec
    if spec.engine.kind == "vllm" and spec.engine.device == "cpu":
        return [Package(name, deb=name) for name in CPU_ENGINE_PACKAGES]
    if not uses_gpus(spec) and not (spec.engine.kind == "simulator" and spec.engine.simulator.stack):
        return []
    wanted = list(_stack_packages(topology, host))
    return [*_guards(topology.cluster, tuple(package for package in wanted if package.hold)), *wanted]


def _stack_packages(topology: Topology, host: Host) -> Iterator[Package]:
    """The driver comes after OFED, whose modules its own are built against."""
    pins, known = topology.pins, GPUS.get(topology.hosts[host.name].gpu_model)
    if "doca_ofed" in pins:
        yield Package("doca-ofed", pins["doca_ofed"], hold=True)
    if "kernel" in pins:
        for beginning in kernel_packages(topology.hosts[host.name].os):
            yield Package(f"{beginning}{pins['kernel']}", hold=True)
    if "driver" in pins and "kernel" not in pins:
        # Kernels that come later find their headers there, or nothing would be built for them (bug case B36).
        yield Package(pins.get("kernel_headers", HEADERS[topology.hosts[host.name].os]))
    if "driver" in pins:
        name = pins.get("driver_package", driver_package(pins["driver"]))
        yield Package(name, pins["driver"], hold=True, family=FAMILY, strangers=NOT_OF_THE_FAMILY)
    if "fabricmanager" in pins and known and known.nvswitch:
        yield Package(fabric_manager_package(pins["fabricmanager"]), pins["fabricmanager"], hold=True)
        if known.subnet_manager:
            yield Package(SUBNET_MANAGER, pins.get("nvlsm"), hold=True)
    if "cuda" in pins:
        for name in cuda_packages(pins["cuda"]):
            yield Package(name, pins["cuda"], hold=True)


@functools.lru_cache(maxsize=16)  # hosts of one board have the same
def _guards(cluster: str, held: tuple[Package, ...]) -> tuple[File, ...]:
    """Without held packages there is nothing to keep; without a driver none that nouveau could displace."""
    driver = next((each for each in held if each.family), None)
    return tuple(_kept(cluster, held, driver)) if held else ()


def _kept(cluster: str, held: tuple[Package, ...], driver: Package | None) -> Iterator[File]:
    yield rendered(
        PREFERENCES.format(cluster),
        "apt-preferences.j2",
        cluster=cluster,
        packages=[package for package in held if package.version],
        family=driver.family if driver else (),
        upstream=upstream(driver.version or "") if driver else "",
        rivals=rivals(driver.version or "") if driver else (),
    )
    yield rendered(
        UNATTENDED.format(cluster),
        "unattended-upgrades.j2",
        cluster=cluster,
        patterns=_patterns(held, driver),
    )
    if driver:
        yield rendered(NOUVEAU.format(cluster), "nouveau.j2", cluster=cluster)


def _patterns(held: tuple[Package, ...], driver: Package | None) -> list[str]:
    """Regular expressions, matched from the beginning of a name (unattended-upgrades, README)."""
    family = [one.removesuffix("*") for one in driver.family] if driver else []
    alone = [package.name for package in held if not package.name.startswith(tuple(family))]
    # A newer kernel would come as a new package: through the metapackages, whatever is held.
    family += KERNELS if any(package.name.startswith(KERNEL) for package in held) else ()
    alone = [name for name in alone if not name.startswith(KERNELS)] if KERNELS[0] in family else alone
    escaped = [re.sub(r"([.+])", r"[\1]", name) for name in alone]
    return [f"^{one}" for one in family] + [f"^{name}$" for name in escaped]
