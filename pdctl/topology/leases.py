"""Topology -> how long an instance must have been idle before its restart loses nobody's KV."""

from __future__ import annotations

from pdctl.knowledge.leases import LEASES
from pdctl.knowledge.versions import at_least
from pdctl.topology.model import Topology


def lease_s(topology: Topology) -> float:
    """Seconds; the engine simulator plays the versions that its pins name. 0 where no KV is moved."""
    serving = topology.spec.serving
    if serving.mode != "disaggregated":
        return 0.0
    return next(
        lease.seconds
        for lease in LEASES
        if lease.connector == serving.connector
        and (not lease.until or not at_least(topology.pins[lease.package], lease.until))
    )
