"""Plan -> the hosts that need a reboot afterwards, and why. pdctl reboots nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pdctl.knowledge.reboots import REBOOTS
from pdctl.plan.model import Action, Plan
from pdctl.state import Package


@dataclass(frozen=True)
class NeedsReboot:
    host: str
    package: str
    change: str  # `580.82.07 -> 580.95.05`
    why: str


def reboots(plan: Plan) -> tuple[NeedsReboot, ...]:
    return tuple(_reboots(plan))


def _reboots(plan: Plan) -> Iterator[NeedsReboot]:
    for change in plan.changes:
        want, have = change.desired, change.observed
        before = have.version if isinstance(have, Package) else None
        if not isinstance(want, Package) or change.action not in (Action.CREATE, Action.UPDATE):
            continue
        if want.version is None or want.version == before:
            continue
        for known in REBOOTS:
            if want.name.startswith(known.beginning) and (before or known.when_new):
                words = f"{before or 'none'} -> {want.version}"
                yield NeedsReboot(change.key.host, want.name, words, known.why)
