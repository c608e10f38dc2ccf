"""A look x its plan -> what `doctor` finds wrong on the hosts that the plan would change; no second look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pdctl.apply.look import Look
from pdctl.errors import ErrorGroup, SpecError
from pdctl.hosts.suitability import Glance, unsuited_host
from pdctl.plan.model import Action
from pdctl.spec.load import Text
from pdctl.spec.rules.suppress import suppressed

# Hosts that an apply leaves out by itself while it finishes the others.
LEFT_OUT = frozenset({"FACT001", "FACT002", "FACT024", "FACT035"})
# The headers that an apply installs may mend it, and an apply reboots nothing; it builds the driver's modules
# anew where OFED changes, and starts no engine where they still do not fit.
NOT_NOW = frozenset({"FACT022", "FACT036"})
# What is no use without the host being as it must: the rest, such as packages, may be what mends it.
NEEDY = ("venv:", "unit:")


class Preflight(NamedTuple):
    errors: tuple[SpecError, ...]
    warnings: tuple[SpecError, ...]

    def refuse(self, cluster: str) -> None:
        """Raises ErrorGroup where there are errors."""
        if self.errors:
            raise ErrorGroup(
                f"`{cluster}` would not work on its hosts, and nothing was changed",
                self.errors,
                hint="`pdctl doctor` shows every check; `suppress` sets one aside where that is possible",
            )


def preflight(seen: Look, text: Text, since: float, until: float) -> Preflight:
    """`since` and `until` are the controller's clock around the look."""
    glance, hushed = Glance(seen.seen, seen.desired, since, until), suppressed(seen.topology.spec)
    needy = _needy(seen)
    errors: list[SpecError] = []
    warnings: list[SpecError] = []
    for index, host in _changed(seen):
        for found in text.located(unsuited_host(seen.topology, glance, index)):
            if found.rule in hushed or found.rule in LEFT_OUT:
                continue
            stops = found.severity == "error" and host in needy and found.rule not in NOT_NOW
            (errors if stops else warnings).append(found)
    return Preflight(tuple(errors), tuple(warnings))


def _changed(seen: Look) -> Iterator[tuple[int, str]]:
    plan = seen.plan
    there = {change.key.host for change in plan.changes} | {restart.host for restart in plan.restarts}
    for index, host in enumerate(seen.topology.spec.hosts):
        if host.name in there and host.name in seen.seen.facts:
            yield index, host.name


def _needy(seen: Look) -> set[str]:
    """Hosts on which something is installed or started that needs them to be fit."""
    made = {
        change.key.host
        for change in seen.plan.changes
        if change.action in (Action.CREATE, Action.UPDATE) and change.key.id.startswith(NEEDY)
    }
    return made | {restart.host for restart in seen.plan.restarts}
