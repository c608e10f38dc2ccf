"""recorded x observed -> drift: what changed on the hosts since pdctl last left them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from pdctl.plan.model import Drift
from pdctl.state import Key, Package, Resource, State, Unit, difference

INTERRUPTED = "left unfinished by an interrupted apply"
# How deviations begin that were found by holding the process against what is wanted now.
AGAINST_WANTED = ("argv ", "environment: ")


def drift(
    recorded: State,
    observed: State,
    pending: Set[Key] = frozenset(),
    wanted: State | None = None,
    unproven: Mapping[Key, str] | None = None,
) -> Iterator[Drift]:
    """Every recorded resource that is gone, differs, or was restarted by somebody else.

    `pending` are those that an interrupted apply was at: it made them what they are, not somebody else.
    `unproven` says of units among them why they were not seen healthy. `wanted` is what processes were held
    against when they were looked at.
    """
    for key in sorted(recorded.keys() | (pending & observed.keys())):
        before, now = recorded.get(key), observed.get(key)
        now = _as_left(before, now, (wanted or {}).get(key))
        open_ = key in pending
        why = (unproven or {}).get(key)
        what = (INTERRUPTED,) if open_ or before is None else _what(before, now)
        if why and open_:
            again = "apply asks it again" if isinstance(now, Unit) else "apply does it again"
            what = (f"{why}; {again}" if key in (wanted or {}) else why,)
        if what:
            yield Drift(key, before, now, what, open_ and isinstance(now, Unit))


def restarted_outside(before: Resource | None, now: Resource | None) -> bool:
    """Whether a unit runs, but not the run that pdctl recorded."""
    if not isinstance(before, Unit) or not isinstance(now, Unit):
        return False
    return now.active == "active" and bool(before.invocation) and now.invocation != before.invocation


def _as_left(before: Resource | None, now: Resource | None, want: Resource | None) -> Resource | None:
    """What shall be another one than was left deviates from that by the spec's own doing."""
    if isinstance(before, Package) and isinstance(now, Package) and isinstance(want, Package):
        return now if want.version == before.version else replace(now, deviations=())
    if not isinstance(before, Unit) or not isinstance(now, Unit) or not isinstance(want, Unit):
        return now
    if want.revision == before.revision:
        return now
    return replace(now, deviations=tuple(d for d in now.deviations if not d.startswith(AGAINST_WANTED)))


def _what(before: Resource, now: Resource | None) -> tuple[str, ...]:
    if now is None:
        return ("removed",)
    found = difference(before, now)
    if restarted_outside(before, now):
        found += ("restarted outside pdctl since the last apply",)
    return found
