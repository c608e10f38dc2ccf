"""One host of the spec -> what beside its driver slows engines on GPUs down, or keeps them from starting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pdctl.hosts.attached import ports
from pdctl.knowledge.gpus import GPUS
from pdctl.knowledge.needs import DMA_BUF_KERNEL, GPU_ENGINE_LIMITS, PEERMEM, TRANSLATING, UNLIMITED
from pdctl.knowledge.versions import at_least
from pdctl.spec.finding import Finding
from pdctl.topology.affinity import uses_rdma

if TYPE_CHECKING:
    from pdctl.hosts.suitability import View


def readiness(view: View) -> Iterator[Finding]:
    """Nothing where no engine uses GPUs."""
    if not view.used_gpus:
        return
    yield from _iommu(view)
    yield from _redirects(view)
    yield from _direct(view)
    yield from _limits(view)


def direct_ways(view: View) -> list[str]:
    """How NICs of the host can read and write the memory of its GPUs."""
    facts = view.facts
    ways = [PEERMEM] if PEERMEM in facts.stack.modules else []
    if facts.ready.open_module and at_least(facts.kernel.split("-")[0], DMA_BUF_KERNEL):
        ways.append("dma-buf")
    return ways


def moves_by_rdma(view: View) -> bool:
    """Whether an engine here sends or takes KV through a NIC that is up."""
    spec, every = view.topology.spec, view.topology.instances
    mine = [each for each in every if each.host == view.host]
    up = any(port.up for port in ports(view.facts).values())
    return up and any(uses_rdma(spec, every, each) for each in mine)


def _iommu(view: View) -> Iterator[Finding]:
    kinds = [kind for kind in view.facts.ready.iommu if kind in TRANSLATING]
    if kinds:
        message = f"translates what its GPUs and NICs access (IOMMU domains of type {', '.join(kinds)})"
        hint = "boot with `intel_iommu=on iommu=pt` or `amd_iommu=on iommu=pt`, or switch the IOMMU off"
        yield view.finding("FACT025", message, hint)


def _redirects(view: View) -> Iterator[Finding]:
    bridges = view.facts.ready.redirects
    board = GPUS.get(view.topology.hosts[view.host].gpu_model)
    over_pcie = len(view.used_gpus) > 1 and not (board and board.nvswitch)
    if bridges and (over_pcie or moves_by_rdma(view)):
        some = ", ".join(bridges[:3]) + (f" and {len(bridges) - 3} more" if bridges[3:] else "")
        message = f"sends traffic between its devices up to the CPU (ACS redirect is on at {some})"
        hint = (
            "on bare metal, at every boot: setpci -s BRIDGE ECAP_ACS+0x6.w=0000 for each; virtual machines"
            " need it"
        )
        yield view.finding("FACT026", message, hint)


def _direct(view: View) -> Iterator[Finding]:
    if view.facts.driver and moves_by_rdma(view) and not direct_ways(view):
        message = f"has no direct way between its GPUs and NICs: neither {PEERMEM} nor dma-buf"
        hint = (
            "modprobe nvidia-peermem (OFED before the driver), or the open kernel modules"
            f" (nvidia-driver-...-open) with Linux {DMA_BUF_KERNEL} or later"
        )
        yield view.finding("FACT027", message, hint)


def _limits(view: View) -> Iterator[Finding]:
    ready, needs = view.facts.ready, dict(GPU_ENGINE_LIMITS)
    if ready.memlock and ready.memlock != UNLIMITED:
        message = (
            f"lets a service lock {ready.memlock} bytes of memory at most, engines need all they ask for"
        )
        yield view.finding("FACT028", message, "raise what systemd itself may lock; in a container: --ulimit")
    least = needs["Max open files"]
    if ready.nofile.isdigit() and int(ready.nofile) < int(least):
        message = f"lets a service open {ready.nofile} files at most, engines need {least}"
        yield view.finding("FACT029", message, "sysctl fs.nr_open=1048576; in a container: --ulimit nofile")
