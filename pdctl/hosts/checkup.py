"""Topology x one look at its hosts -> every check of each: what was found, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from pdctl.errors import SpecError
from pdctl.hosts.check_rows import REACH, ROWS, Row
from pdctl.hosts.suitability import Glance, View, unsuited_host
from pdctl.spec.finding import Finding
from pdctl.spec.load import Inspection
from pdctl.topology.model import Topology


class Status(StrEnum):
    """Of a check, or of a host: then its worst."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"  # the host does not tell
    NOT_NEEDED = "not_needed"


@dataclass(frozen=True)
class Check:
    """`found` says what is there, or why nothing needs to be; `suppressed` has the reasons of the spec."""

    name: str
    status: Status
    found: str
    findings: tuple[SpecError, ...] = ()
    suppressed: tuple[tuple[SpecError, str], ...] = ()


@dataclass(frozen=True)
class Checkup:
    """All checks of one host, in the order of the table."""

    host: str
    address: str
    checks: tuple[Check, ...]

    @property
    def findings(self) -> list[SpecError]:
        return [found for check in self.checks for found in check.findings]

    @property
    def status(self) -> Status:
        severities = {found.severity for found in self.findings}
        return next((Status(worst) for worst in ("error", "warning") if worst in severities), Status.OK)


def checkups(
    topology: Topology, glance: Glance, seen: Inspection, only: Collection[str] = ()
) -> list[Checkup]:
    """Of the hosts in `only`, or of all, in the order of the spec. Findings are those of `unsuited`."""
    hosts = [(i, host.name) for i, host in enumerate(topology.spec.hosts) if not only or host.name in only]
    return [
        Checkup(name, topology.hosts[name].address, tuple(_checks(topology, glance, seen, index, name)))
        for index, name in hosts
    ]


def _checks(topology: Topology, glance: Glance, seen: Inspection, index: int, host: str) -> Iterable[Check]:
    findings = list(unsuited_host(topology, glance, index))
    facts = glance.seen.facts.get(host)
    if facts is None:
        return [_check(REACH, "no answer", findings, seen)]
    view = View(topology, glance, index, host, facts)
    return [_row(row, view, findings, seen) for row in (REACH, *ROWS)]


def _row(row: Row, view: View, findings: Iterable[Finding], seen: Inspection) -> Check:
    mine = [found for found in findings if found.rule in row.rules]
    idle = row.idle(view)
    if idle and not mine:
        return Check(row.name, Status.NOT_NEEDED, idle)
    return _check(row, row.found(view), mine, seen)


def _check(row: Row, found: str, findings: Iterable[Finding], seen: Inspection) -> Check:
    assert seen.text is not None
    located = seen.text.located(findings)
    kept = tuple(each for each in located if each.rule not in seen.suppressed)
    hushed = tuple((each, seen.suppressed[each.rule]) for each in located if each.rule in seen.suppressed)
    severities = {each.severity for each in kept}
    worst = next((Status(name) for name in ("error", "warning") if name in severities), None)
    status = worst or (Status.OK if found else Status.UNKNOWN)
    return Check(row.name, status, found or "the host does not tell", kept, hushed)
