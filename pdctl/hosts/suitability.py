"""Topology x facts of its hosts -> what would keep the spec from working there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from pdctl.hosts.joined import joined
from pdctl.hosts.nearness import nic_findings
from pdctl.hosts.observation import Facts, Observation
from pdctl.hosts.packaging import packaging
from pdctl.hosts.readiness import readiness
from pdctl.hosts.transports import transports
from pdctl.knowledge.adoption import NVIDIA_NAMES
from pdctl.knowledge.compatibility import Status
from pdctl.knowledge.gpus import GPUS
from pdctl.knowledge.models import MODELS
from pdctl.knowledge.needs import ARCH, CLOCK_S, GIB, RUNTIME_BYTES
from pdctl.knowledge.pairs import pair_status
from pdctl.knowledge.reboots import KERNEL, upstream
from pdctl.knowledge.systems import SYSTEM_PYTHON, system_name
from pdctl.plan.machine import other_kernel, split, unbootable, unsigned
from pdctl.spec.finding import Finding
from pdctl.state import Key, Package, Resource, State, Venv, difference
from pdctl.topology.model import Topology
from pdctl.topology.placement import uses_gpus

MEMORY_SLACK = 0.97  # nvidia-smi tells a little less than a board's name, and drivers differ in it
MANY = 20  # findings of one kind on one host


@dataclass(frozen=True)
class Glance:
    """What one look brought: `since` and `until` are the controller's clock around it."""

    seen: Observation
    desired: State  # the environments that hosts shall hold
    since: float
    until: float

    @cached_property
    def wanted(self) -> Mapping[str, State]:
        """`desired` by host: going through all of it for each of 1,000 hosts would take a minute."""
        found: dict[str, dict[Key, Resource]] = {}
        for key, each in self.desired.items():
            found.setdefault(key.host, {})[key] = each
        return found


def unsuited(topology: Topology, glance: Glance) -> Iterator[Finding]:
    """Everything that does not fit, host by host in the order of the spec."""
    for index in range(len(topology.spec.hosts)):
        yield from unsuited_host(topology, glance, index)


def unsuited_host(topology: Topology, glance: Glance, index: int) -> Iterator[Finding]:
    """The same of one host; nothing of one that was not looked at."""
    host = topology.spec.hosts[index].name
    failure = glance.seen.failures.get(host)
    if failure is not None:
        yield Finding("FACT001", ("hosts", index), f"{host}: {failure.message}", failure.hint)
    elif facts := glance.seen.facts.get(host):
        view = View(topology, glance, index, host, facts)
        for check in CHECKS:
            yield from check(view)


@dataclass(frozen=True)
class View:
    """One host of the spec, with what it says of itself."""

    topology: Topology
    glance: Glance
    index: int
    host: str
    facts: Facts

    def finding(self, rule: str, message: str, hint: str, *path: str) -> Finding:
        return Finding(rule, ("hosts", self.index, *path), f"{self.host} {message}", hint)

    @property
    def wanted(self) -> State:
        return self.glance.wanted.get(self.host, {})

    @cached_property
    def used_gpus(self) -> list[int]:
        mine = [item for item in self.topology.instances if item.host == self.host]
        return sorted({gpu for item in mine for gpu in item.gpus}) if uses_gpus(self.topology.spec) else []

    @property
    def free(self) -> int | None:
        """Bytes where environments and models go, which may be a disk of its own."""
        room = self.facts.disk_free
        return room.get("/opt/pdctl", room.get("/opt"))

    @property
    def awaits_driver(self) -> bool:
        """Whether its GPUs are there, and only the driver that an apply installs is not."""
        facts, asked = self.facts, self.topology.hosts[self.host].gpus
        pinned = "driver" in self.topology.pins
        return pinned and not facts.driver and not facts.gpus and facts.ready.pci_gpus >= asked

    @property
    def clock_off(self) -> float:
        """Seconds that the host's clock is surely ahead of the controller's; negative behind."""
        now, glance = self.facts.time_s, self.glance
        return min(0.0, now - glance.since) + max(0.0, now - glance.until)


def _system(view: View) -> Iterator[Finding]:
    facts, wanted = view.facts, view.topology.hosts[view.host].os
    found = system_name(facts.os_id, facts.os_version)
    if found != wanted:
        known = found in SYSTEM_PYTHON
        hint = f"set `os: {found}`" if known else f"hosts can run {', '.join(SYSTEM_PYTHON)}"
        yield view.finding("FACT002", f"runs {found}, the spec says {wanted}", hint, "os")
    elif facts.python.rsplit(".", 1)[0] != SYSTEM_PYTHON[found]:
        message = f"has python3 {facts.python}; that of {found} is {SYSTEM_PYTHON[found]}"
        yield view.finding("FACT003", message, "let /usr/bin/python3 be the system's own")
    if facts.arch != ARCH:
        yield view.finding(
            "FACT003", f"is of architecture {facts.arch}, wheels are for {ARCH}", "use another"
        )
    if not facts.systemd:
        yield view.finding("FACT003", "has no systemd", "services of pdctl are systemd's")


def _gpus(view: View) -> Iterator[Finding]:
    there, used = {gpu.index for gpu in view.facts.gpus}, view.used_gpus
    asked = view.topology.hosts[view.host].gpus
    if not used:
        return
    if (len(there) < asked or not set(used) <= there) and not view.awaits_driver:
        notes = view.glance.seen.notices.get(view.host, ())
        why = next((f": {note}" for note in notes if note.startswith("nvidia-smi")), "")
        bus = view.facts.ready.pci_gpus
        more = f" ({bus} on PCI)" if bus > len(there) else ""
        shown = f"{len(there)} {'GPU' if len(there) == 1 else 'GPUs'}{more}"
        message = f"shows {shown}, the spec says {asked} and uses {_list(used)}{why}"
        yield view.finding("FACT004", message, "look at `nvidia-smi` there, or correct `gpus`", "gpus")
    yield from _boards(view, used)


def _boards(view: View, used: list[int]) -> Iterator[Finding]:
    asked = view.topology.spec.hosts[view.index].gpus
    model = view.topology.hosts[view.host].gpu_model
    known = GPUS.get(model)
    least = (asked.memory_gib or 0) * 1024 or (known.memory_mib if known else 0)
    for gpu in view.facts.gpus:
        if gpu.index not in used:
            continue
        name = NVIDIA_NAMES.get(gpu.name, gpu.name)
        if known and gpu.name in NVIDIA_NAMES and name != model:
            message = f"has {name} as GPU {gpu.index}, the spec says {model}"
            yield view.finding("FACT005", message, f"set `gpus.model: {name}`", "gpus")
        if gpu.memory_total is not None and gpu.memory_total < least * MEMORY_SLACK:
            message = f"has {gpu.memory_total} MiB on GPU {gpu.index}, the spec counts on {least:.0f}"
            yield view.finding("FACT006", message, "correct `gpus.model` or `gpus.memory_gib`", "gpus")
        if gpu.mig_mode_current.lower() == "enabled":
            message = f"has GPU {gpu.index} cut into MIG instances, which pdctl does not place engines on"
            yield view.finding("FACT006", message, f"nvidia-smi -i {gpu.index} -mig 0", "gpus")


def _others(view: View) -> Iterator[Finding]:
    for row in view.glance.seen.foreign.get(view.host, ())[:MANY]:
        if row.kind == "port":
            hint = "end that process, or choose another port"
            yield view.finding("FACT007", f"has others on our ports: {row.what}", hint)
        elif row.kind == "gpu":
            yield view.finding("FACT008", f"has others on our GPUs: {row.what}", "end that process")


def _disk(view: View) -> Iterator[Finding]:
    """What is not there yet must find room; with the engine still missing, its model counts as missing."""
    missing = [
        venv.path.rsplit("/", 1)[1].rsplit("-", 1)[0]
        for key, venv in view.wanted.items()
        if isinstance(venv, Venv) and not _is_there(view, key)
    ]
    need = sum(RUNTIME_BYTES.get(name, 0) for name in missing)
    spec = view.topology.spec
    model = MODELS.get(spec.model.id)
    if model and spec.engine.kind == "vllm" and not spec.model.path:
        need += model.weight_bytes if any(name.startswith("engine") for name in missing) else 0
    free = view.free
    if free is not None and free < need:
        names = ", ".join(sorted(set(missing)))
        message = (
            f"has {free / GIB:.1f} GiB free in /opt/pdctl; {names} and the model need about {need / GIB:.1f}"
        )
        yield view.finding("FACT009", message, "make room there, or mount a larger disk on /opt/pdctl")


def _is_there(view: View, key: Key) -> bool:
    return key in view.glance.seen.state


def _clock(view: View) -> Iterator[Finding]:
    off = view.clock_off
    if abs(off) > CLOCK_S:
        word = "behind" if off < 0 else "ahead of"
        message = f"has a clock {abs(off):.0f} s {word} this machine's"
        yield view.finding("FACT010", message, "run chrony on both")
    if view.facts.ready.clock_kept is False:
        message = "has a clock that nothing keeps in time"
        yield view.finding("FACT033", message, "apt-get install chrony, or switch on systemd-timesyncd")


def _driver(view: View) -> Iterator[Finding]:
    loaded, pins = view.facts.driver, view.topology.pins
    if not view.used_gpus or not loaded:
        return
    if "driver" in pins:
        if upstream(pins["driver"]) != loaded:
            message = f"runs driver {loaded}, the stack pins {pins['driver']}"
            yield view.finding(
                "FACT011", message, "`pdctl apply --allow-reboot` installs it and reboots the host"
            )
        words, _ = split(view.facts.machine, pins["driver"])
        if words:
            yield view.finding(
                "FACT023", f"has two drivers: {words}", "until then CUDA starts no new process"
            )
        return
    verdict = pair_status("vllm", pins["vllm"], "driver", loaded)
    if verdict.status is Status.KNOWN_BAD:
        message = f"runs driver {loaded}, too old for vllm {pins['vllm']}: {verdict.reason}"
        yield view.finding("FACT012", message, "pin `stack.driver`, or install a newer one")


def _nics(view: View) -> Iterator[Finding]:
    return nic_findings(view.topology, view.index, view.facts)


def _kernel(view: View) -> Iterator[Finding]:
    """What the next boot brings, where the driver is pdctl's to keep."""
    if not view.used_gpus or "driver" not in view.topology.pins:
        return
    ofed = Key(view.host, "package:doca-ofed") in view.glance.seen.state
    words = unbootable(view.facts.machine, ofed)
    if words:
        what, _, mend = words.partition(": ")
        yield view.finding("FACT022", f"would lose its driver: {what}", mend)
    pinned = view.topology.pins.get("kernel", "")
    if Key(view.host, f"package:{KERNEL}{pinned}") in view.glance.seen.state:
        words = other_kernel(view.facts.machine, pinned)
        if words:
            what, _, mend = words.partition(": ")
            yield view.finding("FACT022", f"would boot another kernel: {what}", mend)


def _signature(view: View) -> Iterator[Finding]:
    """A driver that is still to be installed, and that the firmware would not let in."""
    for key, want in view.wanted.items():
        have = view.glance.seen.state.get(key)
        if not isinstance(want, Package) or not want.family:
            continue
        what, mend = unsigned(view.facts.machine, want.name)
        if what and (have is None or difference(want, have)):
            yield view.finding("FACT024", f"would not load its driver: {what}", mend)


CHECKS = (
    _system, _gpus, _nics, _others, _disk, _clock, _driver, _kernel, _signature, packaging, readiness, joined,
    transports,
)  # fmt: skip


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
