"""Units that run here for this cluster and that nobody asked for or recorded -> an error, or a warning."""

from __future__ import annotations

from pdctl.apply.systems import without
from pdctl.errors import HostError
from pdctl.hosts.observation import Observation
from pdctl.state import State


def without_lost_records(cluster: str, desired: State, seen: Observation) -> Observation:
    """For destroy, which wants nothing: a host that lost its record would look as if nothing were there."""
    errors = {
        host: HostError(
            f"units of `{cluster}` run here but there is no record of them: {', '.join(units)}",
            where=host,
            hint="`pdctl apply` writes the record anew, then destroy",
        )
        for host, units in seen.strays.items()
        if not desired and host not in seen.records
    }
    return without(seen, errors) if errors else seen


def stray_warnings(seen: Observation) -> list[str]:
    """One line for each host that holds units which no plan will ever touch."""
    return [
        f"{host}: neither the spec nor the record names {', '.join(units)}; remove them by hand, or add them"
        " to the spec, apply, and take them out again"
        for host, units in sorted(seen.strays.items())
    ]
