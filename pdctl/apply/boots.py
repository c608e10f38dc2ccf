"""A look -> what bears on reboots; hosts whose running engines could not be started again are left alone."""

from __future__ import annotations

from functools import cache

from pdctl.apply.systems import without
from pdctl.errors import HostError
from pdctl.hosts.holder import this_process
from pdctl.hosts.observation import Observation
from pdctl.plan.model import Plan
from pdctl.plan.reboots import FLAG, Asked, Boots
from pdctl.spec.rules.suppress import suppressed
from pdctl.state import State, Unit
from pdctl.topology.model import Role, Topology


def boots_of(topology: Topology, seen: Observation) -> Boots:
    return Boots(
        {host: facts.machine for host, facts in seen.facts.items()},
        {host: facts.boot_id for host, facts in seen.facts.items()},
        {
            host: Asked(meta.reboot.boot, meta.reboot.why)
            for host, meta in seen.records.items()
            if meta.reboot
        },
        frozenset(_own(topology, seen)),
        hushed=frozenset(suppressed(topology.spec)),
    )


def without_stuck(desired: State, seen: Observation, plan: Plan) -> Observation:
    """Hosts where something of an engine that runs would change, and could not be started before a reboot
    that nobody has allowed: among the failures, and nothing is done there."""
    errors = {}
    for host in plan.reboots.resting:
        stuck = sorted(
            want.instance
            for key, want in desired.items()
            if key.host == host and isinstance(want, Unit) and want.role != Role.PROXY
            if _runs(now := seen.state.get(key)) and isinstance(now, Unit)
            if now.revision != want.revision or now.deviations
        )
        if stuck:
            why = "; ".join(need.words for need in plan.reboots.of(host) if need.stops)
            errors[host] = HostError(
                f"it needs a reboot first ({why}): {', '.join(stuck)} could not be started again, and"
                f" {'goes' if len(stuck) == 1 else 'go'} on as before",
                where=host,
                hint=plan.reboots.refused.get(host, "")
                or f"pdctl apply {FLAG} reboots it; or do it by hand, then apply again",
            )
    return without(seen, errors) if errors else seen


def _runs(now: object) -> bool:
    return isinstance(now, Unit) and now.active == "active"


def _own(topology: Topology, seen: Observation) -> set[str]:
    """Those that work on this very machine, by the spec or by what is seen."""
    spec = topology.spec
    local = {host.name for host in spec.hosts if (host.ssh or spec.ssh).connection == "local"}
    return local | {host for host, facts in seen.facts.items() if facts.boot_id == _own_boot()}


@cache
def _own_boot() -> str:
    return this_process().boot
