"""The checks of a host by name: which rules each stands for, and what one look at the host found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pdctl.hosts.attached import ports
from pdctl.hosts.joined import unregistered
from pdctl.hosts.packaging import packages_found
from pdctl.hosts.readiness import direct_ways, moves_by_rdma
from pdctl.hosts.suitability import View
from pdctl.hosts.transports import ucx_found
from pdctl.knowledge.adoption import NVIDIA_NAMES
from pdctl.knowledge.gpus import GPUS
from pdctl.knowledge.needs import GIB, PEERMEM
from pdctl.knowledge.ports import ranges
from pdctl.knowledge.systems import system_name
from pdctl.state import Package, Resource, Venv, key_of

KEPT = {True: "kept in time", False: "kept in time by nothing", None: "in a container"}
NO_GPUS = "no engine here uses GPUs"


class Row(NamedTuple):
    """`found` is empty where the host does not tell; `idle` says why nothing needs to be as it must."""

    name: str
    rules: frozenset[str]
    found: Callable[[View], str]
    idle: Callable[[View], str] = lambda view: ""


def _without_gpus(view: View) -> str:
    return "" if view.used_gpus else NO_GPUS


def _reach(view: View) -> str:
    who = "root" if view.facts.root else "no root: ports and GPUs of others stay unseen"
    return f"{view.topology.hosts[view.host].address} as {view.facts.hostname}, {who}"


def _system(view: View) -> str:
    facts = view.facts
    parts = (
        system_name(facts.os_id, facts.os_version),
        facts.arch,
        f"kernel {facts.kernel}",
        f"systemd {facts.systemd or 'missing'}",
        f"python {facts.python}",
    )
    return ", ".join(parts)


def _gpus(view: View) -> str:
    facts = view.facts
    named = Counter(NVIDIA_NAMES.get(gpu.name, gpu.name) for gpu in facts.gpus)
    shown = ", ".join(f"{count} x {name}" for name, count in named.items()) or "none"
    if view.awaits_driver:
        shown = f"{facts.ready.pci_gpus} on PCI, no driver yet: apply installs it"
    return f"{shown}; engines use {_ranges(view.used_gpus)}"


def _gpu_users(view: View) -> str:
    return _others(view, "gpu", "no process of others")


def _ports(view: View) -> str:
    return _others(view, "port", "all free, or held by the cluster itself")


def _others(view: View, kind: str, none: str) -> str:
    if not view.facts.root:
        return ""
    rows = [row.what for row in view.glance.seen.foreign.get(view.host, ()) if row.kind == kind]
    return f"{len(rows)} of others" if rows else none


def _nics(view: View) -> str:
    rows = [f"{name} {port.state} {port.port.link}" for name, port in ports(view.facts).items()]
    return ", ".join(rows) or "no RDMA device"


def _numa(view: View) -> str:
    nodes = view.facts.numa_nodes
    near: dict[int, list[int]] = {}
    for gpu in view.facts.gpus:
        if gpu.numa >= 0:
            near.setdefault(gpu.numa, []).append(gpu.index)
    places = [f"GPU {_ranges(gpus)} on node {node}" for node, gpus in sorted(near.items())]
    return "; ".join([f"{len(nodes)} node{'s' if len(nodes) > 1 else ''}", *places]) if nodes else ""


def _without_packages(view: View) -> str:
    wants = any(isinstance(each, Package) for each in view.wanted.values())
    return "" if wants else "the spec wants no package"


def _driver(view: View) -> str:
    machine, pins = view.facts.machine, view.topology.pins
    pinned = f"pinned {pins['driver']}" if "driver" in pins else "not pinned"
    disk = f", on disk {' and '.join(machine.user_space)}" if machine.user_space else ""
    return f"loaded {machine.driver or 'none'}{disk}, {pinned}"


def _kernel(view: View) -> str:
    machine = view.facts.machine
    if not machine.next_kernel:
        return ""
    headers = "headers there" if machine.headers else "no headers"
    built = f"modules {', '.join(machine.built)}" if machine.built else "no NVIDIA module"
    return f"{machine.next_kernel} ({machine.chosen_by}), {headers}, {built}"


def _kernel_idle(view: View) -> str:
    return _without_gpus(view) or ("" if "driver" in view.topology.pins else "the spec pins no driver")


def _secure_boot(view: View) -> str:
    machine = view.facts.machine
    if not machine.secure_boot:
        return "off"
    signed = "the key of dkms is enrolled" if machine.key_enrolled else "the key of dkms is not enrolled"
    return f"on, {'signed modules of the distribution' if machine.prebuilt else signed}"


def _nvlink(view: View) -> str:
    deep = view.facts.deep
    found = Counter(deep.links.values()) if deep else {}
    return ", ".join(
        f"{count} {'pair' if count == 1 else 'pairs'} {link}" for link, count in sorted(found.items())
    )


def _several(view: View) -> str:
    return _without_gpus(view) or ("" if len(view.used_gpus) > 1 else "engines use one GPU")


def _fabric(view: View) -> str:
    deep = view.facts.deep
    if deep is None:
        return ""
    left = len(unregistered(view))
    count = left or len(deep.fabric)
    gpus = f"{count} {'GPU' if count == 1 else 'GPUs'} {'not ' if left else ''}taken in"
    return f"{gpus}, nvidia-fabricmanager {deep.fabric_manager or 'unknown'}"


def _fabric_idle(view: View) -> str:
    board = GPUS.get(view.topology.hosts[view.host].gpu_model)
    return _without_gpus(view) or ("" if board and board.registers else "no board with a fabric")


def _placed(view: View) -> bool:
    """Whether the host tells where a GPU or NIC of it is."""
    return any([gpu.path for gpu in view.facts.gpus] + [nic.path for nic in view.facts.nics])


def _iommu(view: View) -> str:
    if not _placed(view):
        return ""
    kinds = view.facts.ready.iommu
    return f"on, {', '.join(kinds)}" if kinds else "off"


def _acs(view: View) -> str:
    if not _placed(view) or not view.facts.root:
        return ""
    count = len(view.facts.ready.redirects)
    return f"redirect on at {count} bridges" if count else "no redirect above GPUs and NICs"


def _direct(view: View) -> str:
    return " and ".join(direct_ways(view)) or "none"


def _rdma_idle(view: View) -> str:
    return _without_gpus(view) or ("" if moves_by_rdma(view) else "no KV goes through an RDMA NIC here")


def _ofed(view: View) -> str:
    pinned = (
        f"pinned {view.topology.pins['doca_ofed']}" if "doca_ofed" in view.topology.pins else "not pinned"
    )
    loaded = PEERMEM in view.facts.stack.modules
    return f"{view.facts.rdma.ofed or 'none'}, {pinned}, {PEERMEM} {'loaded' if loaded else 'not loaded'}"


def _ofed_idle(view: View) -> str:
    pinned = "doca_ofed" in view.topology.pins
    return _without_gpus(view) or ("" if pinned else "the spec pins no OFED")


def _ucx_idle(view: View) -> str:
    if view.topology.spec.serving.mode != "disaggregated":
        return "no KV moves"
    there = any(isinstance(each, Venv) for each in view.wanted.values() if _is_there(view, each))
    return _without_gpus(view) or ("" if there else "no engine is installed yet")


def _is_there(view: View, resource: Resource) -> bool:
    return key_of(view.host, resource) in view.glance.seen.state


def _memlock(view: View) -> str:
    return view.facts.ready.memlock and f"{view.facts.ready.memlock} for a service"


def _files(view: View) -> str:
    return view.facts.ready.nofile and f"{view.facts.ready.nofile} for a service"


def _huge_pages(view: View) -> str:
    pages = view.facts.ready.huge_pages
    return f"{pages.total} x {pages.size_kib} KiB reserved, {pages.free} free; nothing here needs them"


def _dns(view: View) -> str:
    deep = view.facts.deep
    if deep is None:
        return ""
    return (
        ", ".join(f"{name} -> {found[0]}" for name, found in deep.names.items() if found) or "nothing found"
    )


def _dns_idle(view: View) -> str:
    deep = view.facts.deep
    return "nothing is looked up there" if deep is not None and not deep.names else ""


def _disk(view: View) -> str:
    return "" if view.free is None else f"{view.free / GIB:.1f} GiB free in /opt/pdctl"


def _clock(view: View) -> str:
    off = view.clock_off
    apart = "as this machine's" if abs(off) < 1 else f"{off:+.0f} s from this machine's"
    return f"{apart}, {KEPT[view.facts.ready.clock_kept]}"


def _ranges(numbers: Iterable[int]) -> str:
    """`0-3, 6` of 0, 1, 2, 3, 6."""
    return ranges(numbers).replace(",", ", ") or "none"


def _rules(*numbers: int) -> frozenset[str]:
    return frozenset(f"FACT{number:03}" for number in numbers)


REACH = Row("reach", _rules(1), _reach)
ROWS = (
    Row("system", _rules(2, 3), _system),
    Row("clock", _rules(10, 33), _clock),
    Row("disk", _rules(9), _disk),
    Row("ports", _rules(7), _ports),
    Row("DNS", _rules(32), _dns, _dns_idle),
    Row("GPUs", _rules(4, 5, 6), _gpus, _without_gpus),
    Row("GPU users", _rules(8), _gpu_users, _without_gpus),
    Row("NVLink", _rules(30), _nvlink, _several),
    Row("fabric", _rules(31), _fabric, _fabric_idle),
    Row("NUMA", _rules(16, 17), _numa, _without_gpus),
    Row("NICs", _rules(13, 14, 15, 18, 19, 20, 21), _nics, _without_gpus),
    Row("GPU to NIC", _rules(27), _direct, _rdma_idle),
    Row("OFED", _rules(36), _ofed, _ofed_idle),
    Row("UCX", _rules(37, 38), ucx_found, _ucx_idle),
    Row("IOMMU", _rules(25), _iommu, _without_gpus),
    Row("ACS", _rules(26), _acs, _without_gpus),
    Row("memlock", _rules(28), _memlock, _without_gpus),
    Row("open files", _rules(29), _files, _without_gpus),
    Row("huge pages", frozenset(), _huge_pages, _without_gpus),
    Row("packages", _rules(34, 35), packages_found, _without_packages),
    Row("driver", _rules(11, 12, 23), _driver, _without_gpus),
    Row("next kernel", _rules(22), _kernel, _kernel_idle),
    Row("Secure Boot", _rules(24), _secure_boot, _kernel_idle),
)
