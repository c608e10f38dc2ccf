"""Plan -> the hosts that need a reboot afterwards, and why. pdctl reboots nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pdctl.knowledge.reboots import REBOOTS
from pdctl.plan.machine import NOUVEAU, Machine
from pdctl.plan.model import Action, Change, Plan
from pdctl.state import File, Package


@dataclass(frozen=True)
class NeedsReboot:
    host: str
    package: str
    change: str  # `580.82.07 -> 580.95.05`
    why: str


def reboots(plan: Plan, machines: Mapping[str, Machine] | None = None) -> tuple[NeedsReboot, ...]:
    """`machines` tell what is loaded on each host now."""
    found: list[NeedsReboot] = []
    for change in plan.changes:
        if change.action in (Action.CREATE, Action.UPDATE):
            found += _packages(change)
            found += _nouveau(change, (machines or {}).get(change.key.host, Machine()))
    return tuple(found)


def _packages(change: Change) -> Iterator[NeedsReboot]:
    want, have = change.desired, change.observed
    before = have.version if isinstance(have, Package) else None
    if not isinstance(want, Package) or want.version is None or want.version == before:
        return
    for known in REBOOTS:
        if want.name.startswith(known.beginning) and (before or known.when_new):
            words = f"{before or 'none'} -> {want.version}"
            yield NeedsReboot(change.key.host, want.name, words, known.why)


def _nouveau(change: Change, machine: Machine) -> Iterator[NeedsReboot]:
    if isinstance(change.desired, File) and is_nouveaus(change.desired) and NOUVEAU in machine.modules:
        yield NeedsReboot(change.key.host, NOUVEAU, "loaded -> forbidden", "it holds the GPUs until then")


def is_nouveaus(file: File) -> bool:
    """The file that keeps it from being loaded."""
    return file.path.startswith("/etc/modprobe.d/") and file.path.endswith(f"-{NOUVEAU}.conf")
