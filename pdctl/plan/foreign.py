"""What is on our hosts that pdctl does not own: told beside the drift, and never changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pdctl.knowledge.reboots import DRIVER, KERNEL
from pdctl.plan.machine import NOUVEAU, Machine, other_kernel, split, unbootable
from pdctl.plan.reboots import is_nouveaus, with_package
from pdctl.state import File, Key, Package, State, Unit, difference

FLAPS = 3  # a single crash is over; one that comes again and again is not


@dataclass(frozen=True)
class Foreign:
    """`kind` is `port`, `gpu`, `driver`, `kernel`, `reboot`, `packages` or `flapping`; `subject` the port,
    GPU, package, kernel or unit. Of `reboot` is what only a reboot puts in force: until then the host is
    not in order.

    `instance` is whose place it is; the rest says who is there.
    """

    kind: str
    subject: str
    instance: str = ""
    host: str = ""
    pid: int = 0
    process: str = ""
    user: str = ""
    unit: str = ""
    memory_mib: int | None = None
    words: str = ""

    @property
    def what(self) -> str:
        """In words: `GPU 3 (decoder-0) is used by python3, pid 812 of bob, 4096 MiB`."""
        if self.words:
            return self.words
        place = f"GPU {self.subject}" if self.kind == "gpu" else f"port {self.subject}"
        verb = "is used by" if self.kind == "gpu" else "is held by"
        who = f"{self.process or 'a process'}, pid {self.pid}" + (f" of {self.user}" if self.user else "")
        memory = f", {self.memory_mib} MiB" if self.memory_mib else ""
        service = f", {self.unit}" if self.unit else ""
        return f"{place} ({self.instance}) {verb} {who}{service}{memory}"


def foreign(
    processes: Mapping[str, Iterable[Foreign]],
    machines: Mapping[str, Machine],
    observed: State,
    notes: Mapping[str, Iterable[str]] | None = None,
    desired: State | None = None,
) -> list[Foreign]:
    """All of it, by host. `processes` are what the hosts found, `machines` what they say of their drivers,
    `notes` what could not be read of GPUs that the spec counts on, `desired` what the spec wants there."""
    found = [replace(row, host=host) for host, rows in processes.items() for row in rows]
    found += [
        Foreign("driver", "nvidia-smi", host=host, words=line)
        for host, lines in (notes or {}).items()
        for line in dict.fromkeys(lines)
        if line.startswith("nvidia-smi: ")
    ]
    found += [*_drivers(machines, observed, desired or {}), *_flapping(observed)]
    found += _nouveau(machines, observed, desired or {})
    found += _kernels(machines, observed, desired or {})
    return sorted(found, key=lambda row: (row.host, row.kind, row.subject))


def _flapping(observed: State) -> Iterator[Foreign]:
    for key, row in observed.items():
        if isinstance(row, Unit) and row.crashes >= FLAPS:
            words = f"systemd has started {row.name} again {row.crashes} times: it keeps ending"
            yield Foreign("flapping", row.name, host=key.host, words=words)


def _drivers(machines: Mapping[str, Machine], observed: State, desired: State) -> Iterator[Foreign]:
    """Files of the driver that were changed under the loaded module."""
    pinned = {
        key.host: row.version or ""
        for key, row in desired.items()
        if isinstance(row, Package) and row.name.startswith(DRIVER)
    }
    for host, machine in machines.items():
        words, reboot = split(with_package(host, machine, observed), pinned.get(host, ""))
        if words:
            yield Foreign("reboot" if reboot else "driver", "nvidia", host=host, words=words)


def _nouveau(machines: Mapping[str, Machine], observed: State, desired: State) -> Iterator[Foreign]:
    """It is forbidden already, and still has the GPUs."""
    for key, want in desired.items():
        machine, have = machines.get(key.host), observed.get(key)
        if not isinstance(want, File) or not is_nouveaus(want) or have is None or difference(want, have):
            continue
        if machine and NOUVEAU in machine.modules:
            words = f"{NOUVEAU} is loaded, {want.path} forbids it -> reboot needed"
            yield Foreign("reboot", NOUVEAU, host=key.host, words=words)


def _kernels(machines: Mapping[str, Machine], observed: State, desired: State) -> Iterator[Foreign]:
    """A reboot would end without a driver, or in another kernel than the pinned one; or is still to come."""
    drivers = {key.host for key, row in desired.items() if isinstance(row, Package) and row.family}
    for key in desired:
        pinned = key.id.removeprefix(f"package:{KERNEL}")
        if key.host not in machines or pinned == key.id or key not in observed:
            continue
        machine = machines[key.host]
        if words := other_kernel(machine, pinned):
            yield Foreign("kernel", machine.next_kernel, host=key.host, words=words)
        if machine.kernel not in ("", pinned):
            words = f"kernel {machine.kernel} runs, {pinned} is pinned -> reboot needed"
            yield Foreign("reboot", "kernel", host=key.host, words=words)
    for host in sorted(drivers & machines.keys()):
        words = unbootable(machines[host], ofed=Key(host, "package:doca-ofed") in observed)
        if words:
            yield Foreign("kernel", machines[host].next_kernel, host=host, words=words)
