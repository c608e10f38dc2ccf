"""recorded x observed -> drift: what changed on the hosts since pdctl last left them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from pdctl.desired.layout import UNITS
from pdctl.plan.model import Drift
from pdctl.state import Key, Package, Resource, State, Unit, Venv, Weights, difference

INTERRUPTED = "left unfinished by an interrupted apply"
# How deviations begin that were found by holding the process against what is wanted now.
AGAINST_WANTED = ("argv ", "environment: ")
# systemd has not read the unit file as it lies there. That alone says nothing about the process.
RELOAD = "needs daemon-reload"


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
        now = own_files_aside(key, now, recorded, observed, pending, wanted or {})
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


def own_files_aside(
    key: Key,
    now: Resource | None,
    recorded: State,
    observed: State,
    pending: Set[Key],
    wanted: State,
) -> Resource | None:
    """The unit without its need of a daemon-reload, where that is pdctl's own doing: an apply that ended
    before it started anything has put the unit file, and nobody has changed that since.

    A file that was put and is as wanted, beside a process that is too, was touched by somebody else.
    """
    if not isinstance(now, Unit) or RELOAD not in now.deviations:
        return now
    file = Key(key.host, f"file:{UNITS}/{now.name}")
    left, lies = recorded.get(file), observed.get(file)
    if file not in pending:
        if left is None or lies is None or difference(left, lies):
            return now
        before, want, text = recorded.get(key), wanted.get(key), wanted.get(file)
        same = isinstance(before, Unit) and isinstance(want, Unit) and before.revision == want.revision
        if same and text is not None and not difference(text, lies):
            return now
    return replace(now, deviations=tuple(d for d in now.deviations if d != RELOAD))


def _as_left(before: Resource | None, now: Resource | None, want: Resource | None) -> Resource | None:
    """What shall be another one than was left deviates from that by the spec's own doing."""
    if isinstance(before, Package) and isinstance(now, Package) and isinstance(want, Package):
        return now if want.version == before.version else replace(now, deviations=before.deviations)
    if isinstance(before, Weights) and isinstance(now, Weights) and isinstance(want, Weights):
        return now if want.revision == before.revision else replace(now, revision=before.revision)
    if isinstance(before, Venv) and isinstance(now, Venv) and isinstance(want, Venv):
        return now if want.proof == before.proof else replace(now, proof=before.proof)
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
