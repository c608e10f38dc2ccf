"""recorded x observed -> drift: what changed on the hosts since pdctl last left them."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.plan.model import Drift
from pdctl.state import Resource, State, Unit, difference


def drift(recorded: State, observed: State) -> Iterator[Drift]:
    """Every recorded resource that is gone, differs, or was restarted by somebody else."""
    for key, before in sorted(recorded.items()):
        now = observed.get(key)
        what = _what(before, now)
        if what:
            yield Drift(key, before, now, what)


def restarted_outside(before: Resource | None, now: Resource | None) -> bool:
    """Whether a unit runs, but not the run that pdctl recorded."""
    if not isinstance(before, Unit) or not isinstance(now, Unit):
        return False
    return now.active == "active" and bool(before.invocation) and now.invocation != before.invocation


def _what(before: Resource, now: Resource | None) -> tuple[str, ...]:
    if now is None:
        return ("removed",)
    found = difference(before, now)
    if restarted_outside(before, now):
        found += ("restarted outside pdctl since the last apply",)
    return found
