"""Rules on the driver's pins, and on pins that nothing would install."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pdctl.knowledge.gpus import GPUS
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules.rule import pin

# Parts that only hosts with GPUs get.
GPU_PINS = (
    "driver",
    "driver_package",
    "kernel",
    "kernel_headers",
    "fabricmanager",
    "nvlsm",
    "cuda",
    "doca_ofed",
)
# Pins for NIXL built from source; the wheel brings its own UCX.
SOURCE_PINS = ("ucx", "nixl_commit")
BRANCH = re.compile(r"-(\d{3})(?:-|$)")


def fabric_manager_fits_the_driver(cluster: Cluster) -> Iterator[Finding]:
    """The daemon refuses any other driver than its own version; Debian's revision says nothing."""
    driver, fabric = pin(cluster, "driver"), pin(cluster, "fabricmanager")
    if not driver or not fabric or not _uses_gpus(cluster) or upstream(driver) == upstream(fabric):
        return
    field = "fabricmanager" if cluster.stack.fabricmanager else "driver"
    yield Finding(
        "DRIVER001",
        ("stack", field),
        f"fabricmanager {fabric}{_origin(cluster, 'fabricmanager')} does not fit driver"
        f" {driver}{_origin(cluster, 'driver')}: the two must be of one version",
        f"pin both, e.g. `fabricmanager: {driver}`",
    )


def the_package_is_of_the_drivers_branch(cluster: Cluster) -> Iterator[Finding]:
    driver, package = pin(cluster, "driver"), pin(cluster, "driver_package")
    branch = BRANCH.search(package)
    if not driver or not branch or not _uses_gpus(cluster):
        return
    if upstream(driver).split(".")[0] != branch[1]:
        field = "driver_package" if cluster.stack.driver_package else "driver"
        yield Finding(
            "DRIVER002",
            ("stack", field),
            f"package {package}{_origin(cluster, 'driver_package')} holds drivers of branch {branch[1]}, not"
            f" {driver}{_origin(cluster, 'driver')}",
            "pin `driver` and `driver_package` of one branch",
        )


def pins_are_installed(cluster: Cluster) -> Iterator[Finding]:
    for name in SOURCE_PINS:
        if getattr(cluster.stack, name) is not None:
            yield Finding(
                "USE005",
                ("stack", name),
                f"`{name}` cannot take effect: pdctl installs the nixl wheel, which brings its own UCX",
                "remove it, and pin `nixl`",
                on_key=True,
            )
    if not _uses_gpus(cluster):
        if cluster.engine.kind == "simulator" and cluster.engine.simulator.stack:
            return
        for name in GPU_PINS:
            if getattr(cluster.stack, name) is not None:
                engine = "the CPU engine" if cluster.engine.kind == "vllm" else "the simulator"
                yield _useless(name, engine)
    elif cluster.stack.fabricmanager is not None and not _may_have_switches(cluster):
        yield _useless("fabricmanager", "hosts without NVSwitch, where Fabric Manager only fails")
    elif cluster.stack.nvlsm is not None and not _may_need_subnet_manager(cluster):
        yield _useless("nvlsm", "boards whose NVSwitches need no subnet manager")


def upstream(version: str) -> str:
    """A Debian version without its epoch and its revision."""
    return version.partition(":")[2].rpartition("-")[0] or version.rpartition("-")[0] or version


def _origin(cluster: Cluster, name: str) -> str:
    return "" if getattr(cluster.stack, name) else f" (of `{cluster.stack.base}`)"


def _useless(name: str, where: str) -> Finding:
    return Finding("USE006", ("stack", name), f"has no effect with {where}", "remove it", on_key=True)


def _uses_gpus(cluster: Cluster) -> bool:
    return cluster.engine.kind == "vllm" and cluster.engine.device == "cuda"


def _may_have_switches(cluster: Cluster) -> bool:
    models = [GPUS.get(host.gpus.model or "") for host in cluster.hosts if host.gpus.count]
    return any(known is None or known.nvswitch for known in models)


def _may_need_subnet_manager(cluster: Cluster) -> bool:
    models = [GPUS.get(host.gpus.model or "") for host in cluster.hosts if host.gpus.count]
    return any(known is None or known.subnet_manager for known in models)
