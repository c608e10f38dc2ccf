"""Plan -> packages that would become older because the spec says so, which needs an explicit word."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.knowledge.debian_versions import is_older
from pdctl.plan.model import Change, Plan
from pdctl.state import Package, Resource

DOWNGRADE = "DOWNGRADE"


def downgrades(plan: Plan) -> Iterator[Change]:
    """What has drifted from an older version is left out: to take that back undoes what somebody else did."""
    return (c for c in plan.changes if not c.drift and is_downgrade(c.desired, c.observed))


def is_downgrade(want: Resource | None, have: Resource | None) -> bool:
    if not isinstance(want, Package) or not isinstance(have, Package) or not want.version or not have.version:
        return False
    return is_older(want.version, have.version)
