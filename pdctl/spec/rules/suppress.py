"""Rules on `suppress`, and what it does: findings of a named rule are set aside, with the reason."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from pdctl.errors import SpecError
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules.table import TABLE

ASKED_LATER = ("FACT", "LOCK")  # what hosts say, and the lock beside the spec: not always looked at


def suppressed(cluster: Cluster) -> dict[str, str]:
    """The rules that are set aside, with the reason; those that cannot be are not."""
    return {
        entry.rule: entry.reason
        for entry in cluster.suppress
        if entry.rule in TABLE and TABLE[entry.rule].suppressible
    }


def apart(ids: Container[str], found: Iterable[SpecError]) -> tuple[list[SpecError], list[SpecError]]:
    """(what counts, what is set aside)"""
    kept: list[SpecError] = []
    hushed: list[SpecError] = []
    for error in found:
        (hushed if error.rule in ids else kept).append(error)
    return kept, hushed


def unused(cluster: Cluster, hushed: Iterable[SpecError]) -> Iterator[Finding]:
    """Entries that set nothing aside; to be asked when everything else is sound."""
    met = {error.rule for error in hushed}
    for i, entry in enumerate(cluster.suppress):
        if entry.rule.startswith(ASKED_LATER):
            continue
        if entry.rule in suppressed(cluster) and entry.rule not in met:
            yield Finding(
                "SUPPRESS003",
                ("suppress", i, "rule"),
                f"`{entry.rule}` finds nothing here",
                "remove the entry",
            )


def suppressions_are_allowed(cluster: Cluster) -> Iterator[Finding]:
    seen: set[str] = set()
    for i, entry in enumerate(cluster.suppress):
        path = ("suppress", i, "rule")
        if entry.rule not in TABLE:
            yield Finding("SUPPRESS001", path, f"there is no rule `{entry.rule}`", _other(entry.rule))
        elif not TABLE[entry.rule].suppressible:
            yield Finding(
                "SUPPRESS002",
                path,
                f"`{entry.rule}` cannot be suppressed: {TABLE[entry.rule].title[0].lower()}"
                f"{TABLE[entry.rule].title[1:]}",
                f"mend it; `pdctl explain {entry.rule}` says how",
            )
        elif entry.rule in seen:
            yield Finding("SUPPRESS004", path, f"`{entry.rule}` is suppressed twice", "keep one entry")
        seen.add(entry.rule)


def _other(rule: str) -> str:
    from difflib import get_close_matches  # needed only when something is wrong

    close = get_close_matches(rule, TABLE, 1)
    return f"did you mean `{close[0]}`?" if close else "docs/rules.md lists them all"
