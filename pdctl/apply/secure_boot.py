"""Hosts whose firmware would refuse the driver that is about to be built there: they are left alone."""

from __future__ import annotations

from pdctl.apply.systems import without
from pdctl.errors import HostError
from pdctl.hosts.observation import Observation
from pdctl.plan.machine import unsigned
from pdctl.spec.rules.suppress import suppressed
from pdctl.state import Package, State, difference
from pdctl.topology.model import Topology

RULE = "FACT024"


def without_unsigned_drivers(topology: Topology, desired: State, seen: Observation) -> Observation:
    """The same, with each of them among the failures and nowhere else.

    A driver that is there already runs, or not, as it did before. Whoever has another way of signing modules
    may suppress the rule.
    """
    if RULE in suppressed(topology.spec):
        return seen
    errors = {}
    for key, want in desired.items():
        facts, have = seen.facts.get(key.host), seen.state.get(key)
        if not isinstance(want, Package) or not want.family or facts is None:
            continue
        what, mend = unsigned(facts.machine, want.name)
        if what and (have is None or difference(want, have)):
            errors[key.host] = HostError(what, where=key.host, hint=mend)
    return without(seen, errors) if errors else seen
