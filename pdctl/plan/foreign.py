"""What is on our hosts that pdctl does not own: told beside the drift, and never changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pdctl.knowledge.reboots import DRIVER, upstream
from pdctl.state import Package, State, Unit

FLAPS = 3  # a single crash is over; one that comes again and again is not


@dataclass(frozen=True)
class Foreign:
    """`kind` is `port`, `gpu`, `driver`, `binary` or `flapping`; `subject` the port, GPU, package or unit.

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
        if self.kind == "binary":
            return (
                f"{self.subject} runs a {self.process} that has been replaced since: restart it in its time"
            )
        place = f"GPU {self.subject}" if self.kind == "gpu" else f"port {self.subject}"
        verb = "is used by" if self.kind == "gpu" else "is held by"
        who = f"{self.process or 'a process'}, pid {self.pid}" + (f" of {self.user}" if self.user else "")
        memory = f", {self.memory_mib} MiB" if self.memory_mib else ""
        service = f", {self.unit}" if self.unit else ""
        return f"{place} ({self.instance}) {verb} {who}{service}{memory}"


def foreign(
    processes: Mapping[str, Iterable[Foreign]],
    loaded: Mapping[str, str],
    observed: State,
    notes: Mapping[str, Iterable[str]] | None = None,
) -> list[Foreign]:
    """All of it, by host. `processes` are what the hosts found, `loaded` the drivers that run there, `notes`
    what could not be read of GPUs that the spec counts on."""
    found = [replace(row, host=host) for host, rows in processes.items() for row in rows]
    found += [
        Foreign("driver", "nvidia-smi", host=host, words=line)
        for host, lines in (notes or {}).items()
        for line in dict.fromkeys(lines)
        if line.startswith("nvidia-smi: ")
    ]
    found += [*_drivers(loaded, observed), *_flapping(observed)]
    return sorted(found, key=lambda row: (row.host, row.kind, row.subject))


def _flapping(observed: State) -> Iterator[Foreign]:
    for key, row in observed.items():
        if isinstance(row, Unit) and row.crashes >= FLAPS:
            words = f"systemd has started {row.name} again {row.crashes} times: it keeps ending"
            yield Foreign("flapping", row.name, host=key.host, words=words)


def _drivers(loaded: Mapping[str, str], observed: State) -> Iterator[Foreign]:
    """A driver package that was installed after its module was loaded waits for a reboot."""
    for key, row in observed.items():
        running = loaded.get(key.host, "")
        if isinstance(row, Package) and row.name.startswith(DRIVER) and row.version and running:
            installed = upstream(row.version)
            if installed != running:
                words = f"driver {running} is loaded, {installed} is installed: it needs a reboot"
                yield Foreign("driver", row.name, host=key.host, words=words)
