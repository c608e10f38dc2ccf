"""A reboot step x one host -> what that host is told about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pdctl.knowledge.reboots import DRIVER, KERNEL, OFED, upstream
from pdctl.plan.model import Plan
from pdctl.state import Key, Package, State, Unit
from pdctl.topology.model import Role


def reboot_request(
    plan: Plan, desired: State, host: str, keys: Iterable[Key], timeout_s: int
) -> dict[str, Any]:
    """`rest`: engines that stop, and that the boot shall not start again. `driver` and `kernel` are what has
    to be in force after it; `owed`: nothing on disk would tell that it is still to come."""
    rows = [(key, desired.get(key)) for key in keys]
    needs = plan.reboots.of(host)
    mine = [row for key, row in desired.items() if key.host == host and isinstance(row, Package)]
    drivers = [row.version for row in mine if row.name.startswith(DRIVER) and row.version]
    kernels = [row.name.removeprefix(KERNEL) for row in mine if row.name.startswith(KERNEL)]
    return {
        "rest": [row.name for _, row in rows if isinstance(row, Unit) and row.role != Role.PROXY],
        "reboot": {
            "why": sorted({need.words for need in needs}),
            "driver": upstream(drivers[0]) if drivers else "",
            "kernel": kernels[0] if kernels else "",
            "ofed": any(row.name == OFED for row in mine),
            "blind": plan.reboots.blind,
            "owed": any(need.package == OFED for need in needs),
            "timeout_s": timeout_s,
        },
    }
