"""What is known of a cluster at one moment, as the document that `status` prints. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdctl.desired.layout import unit_name
from pdctl.plan.model import Plan
from pdctl.state import Key, Resource, State, Unit
from pdctl.topology.model import Topology
from pdctl.verify.health import Health


def status_document(
    topology: Topology, observed: State, plan: Plan, health: Mapping[str, Health]
) -> dict[str, Any]:
    """`pdctl-status/1`: a row per instance, the drift, and whether all is well."""
    places = [(i.name, i.role.value, i.host, i.url, list(i.gpus)) for i in topology.instances]
    places.append(("proxy", "proxy", topology.proxy.host, topology.proxy.url, []))
    rows = []
    for name, role, host, url, gpus in places:
        unit = observed.get(Key(host, f"unit:{unit_name(topology.cluster, name)}"))
        state = _judged(unit, health[name])
        rows.append(
            {
                "instance": name,
                "role": role,
                "host": host,
                "url": url,
                "gpus": gpus,
                "unit": unit.active if isinstance(unit, Unit) else "absent",
                "healthy": state.ok,
                "reason": state.reason,
                "version": state.version,
                "simulated": state.simulated,
            }
        )
    return {
        "format": "pdctl-status/1",
        "cluster": topology.cluster,
        "mode": topology.spec.serving.mode,
        "healthy": all(row["healthy"] for row in rows),
        "simulated": any(row["simulated"] for row in rows),
        "instances": rows,
        "changes": len(plan.changes),
        "drift": [{"host": d.key.host, "id": d.key.id, "what": list(d.what)} for d in plan.drift],
        "unreachable": dict(plan.unreachable),
    }


def _judged(unit: Resource | None, health: Health) -> Health:
    """An answer on the port of a unit that does not run is somebody else's."""
    if isinstance(unit, Unit) and unit.active != "active":
        return Health(False, f"its unit is {unit.active}")
    if unit is None and health.ok:
        return Health(False, "its unit is absent")
    return health
