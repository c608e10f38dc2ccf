"""Checkups of hosts -> the document of `pdctl doctor --json`, and a table for each host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pdctl.hosts.checkup import Check, Checkup, Status
from pdctl.views.console import error_document
from pdctl.views.page import Page

SIGNS = {
    Status.OK: ("ok", "green"),
    Status.WARNING: ("warning", "yellow"),
    Status.ERROR: ("error", "bold red"),
    Status.UNKNOWN: ("unknown", "dim"),
    Status.NOT_NEEDED: ("not needed", "dim"),
}


def doctor_document(cluster: str, found: Sequence[Checkup]) -> dict[str, Any]:
    """Every check of every host, and how many findings of each severity there are."""
    return {
        "format": "pdctl-doctor/1",
        "cluster": cluster,
        "status": worst(found).value,
        "hosts": [
            {
                "host": one.host,
                "address": one.address,
                "status": one.status.value,
                "checks": [_check(check) for check in one.checks],
            }
            for one in found
        ],
    }


def worst(found: Sequence[Checkup]) -> Status:
    """Of all hosts."""
    severities = {one.status for one in found}
    return next((each for each in (Status.ERROR, Status.WARNING) if each in severities), Status.OK)


def show_doctor(found: Sequence[Checkup], console: Console) -> None:
    """A table for each host, what is wrong with it below, and one line on all."""
    page = Page(console)
    for one in found:
        page.heading(f"{one.host}  {one.address}")
        _show_table(one.checks, console)
        for check in one.checks:
            _show_findings(check, page)
        page.gap()
    page.line(_summary(found))


def _check(check: Check) -> dict[str, Any]:
    return {
        "check": check.name,
        "status": check.status.value,
        "found": check.found,
        "findings": [error_document(found) for found in check.findings],
        "suppressed": [error_document(found) | {"reason": reason} for found, reason in check.suppressed],
    }


def _show_table(checks: Sequence[Check], console: Console) -> None:
    table = Table("check", "", "found", box=box.SIMPLE if console.is_terminal else None, pad_edge=False)
    idle: dict[str, list[str]] = {}
    for check in checks:
        if check.status is Status.NOT_NEEDED:
            idle.setdefault(check.found, []).append(check.name)
            continue
        sign, style = SIGNS[check.status]
        table.add_row(check.name, Text(sign, style=style), Text(check.found))
    console.print(table)
    for why, names in idle.items():
        console.print(Text(f"not needed ({why}): {', '.join(names)}", style="dim"))


def _show_findings(check: Check, page: Page) -> None:
    for found in check.findings:
        sign, style = SIGNS[Status(found.severity)]
        page.line((f"{sign}: ", style), str(found), indent=2)
        if found.hint:
            page.line(("hint: ", "cyan"), found.hint, indent=6)
    for found, reason in check.suppressed:
        page.line(f"suppressed: {found} ({reason})", indent=2)


def _summary(found: Sequence[Checkup]) -> str:
    counts = Counter(each.severity for one in found for each in one.findings)
    hosts = f"{len(found)} host{'s' if len(found) != 1 else ''}"
    if not counts:
        return f"{hosts}: nothing is wrong"
    return f"{hosts}: " + ", ".join(f"{n} {name}{'s' if n > 1 else ''}" for name, n in sorted(counts.items()))
