"""A plan about to be carried out -> the lock and generation it is made under; and how each host came out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pdctl.apply.departed import departed
from pdctl.apply.generations import (
    COMPLETE,
    PARTIAL,
    complete,
    life_of,
    manifest_header,
    next_number,
    oldest_kept,
    rows_by_host,
    summary,
    takes_part,
)
from pdctl.apply.lock import Held, Say, Wanted, locked
from pdctl.apply.look import Look
from pdctl.apply.run import meta
from pdctl.hosts.holder import this_process
from pdctl.hosts.sessions import Sessions

APPLY, DESTROY = "pdctl apply", "pdctl destroy"


@dataclass(frozen=True)
class About:
    """What a generation is made from: the texts of spec and lock; the generation it brings back, if any."""

    spec: str
    restores: int | None = None
    lock: str = ""

    @property
    def again(self) -> str:
        """The command that goes on where this one ended."""
        return f"pdctl rollback {self.restores}" if self.restores else APPLY


@contextmanager
def making(sessions: Sessions, seen: Look, about: About, say: Say) -> Iterator[Held]:
    """The lock of all hosts that were looked at, with a new generation begun on those that have part in it.

    Raises LockError, HostError or UnreachableError before anything was changed.
    """
    found = seen.seen.kept
    number = next_number(found)
    header = _about(seen, about) | {"number": number}
    rows = takes_part(found, seen.plan, seen.desired) or rows_by_host(seen.desired, found)
    begins = {
        host: {"header": manifest_header(some, header), "rows": some, "spec": about.spec, "lock": about.lock}
        for host, some in rows.items()
    }
    with locked(sessions, Wanted(seen.topology.cluster, found, number, begins), say) as held:
        held.oldest = oldest_kept(complete(found), seen.topology.spec.generations.keep)
        yield held


@contextmanager
def unmaking(sessions: Sessions, seen: Look, say: Say) -> Iterator[Held]:
    """The lock for destroy, which leaves no history on a host that holds nothing any more."""
    with locked(sessions, Wanted(seen.topology.cluster, seen.seen.kept), say) as held:
        held.forget = True
        yield held


def close_off(sessions: Sessions, seen: Look, about: About, say: Say) -> None:
    """An apply was cut off when nothing was left to do: what the hosts hold becomes a whole generation."""
    with making(sessions, seen, about, say) as held:
        came_out(held, seen, seen)


def came_out(held: Held, seen: Look, after: Look, failed: Iterable[str] = ()) -> None:
    """Hosts are done that are not among those that `failed` and where a second look finds nothing left to do,
    nor a unit that was not seen healthy; what garbage is, follows from that.

    With hosts left out it is no whole: going back to it would mix it with what those hosts held before.
    """
    left = {change.key.host for change in after.plan.changes} | {r.host for r in after.plan.restarts}
    waits = {key.host for key in after.plan.waiting}
    left |= {drift.key.host for drift in after.plan.drift if drift.unproven} | set(failed)
    away = bool(seen.seen.failures or after.seen.failures)
    held.states = {host: PARTIAL if away else COMPLETE for host in after.seen.facts if host not in left}
    held.states |= dict.fromkeys(waits - set(failed), PARTIAL)
    if left or away:
        return
    done = [*complete(seen.seen.kept), held.number]
    held.oldest = oldest_kept(done, seen.topology.spec.generations.keep)


def _about(seen: Look, about: About) -> dict[str, Any]:
    found = meta(seen)
    return {
        "at": found.applied_at,
        "by": found.by,
        "pdctl": found.pdctl,
        "what": what(seen, about),
        "command": this_process().command,
        "restores": about.restores,
        "life": life_of(seen.seen.kept) or uuid4().hex,
    }


def what(seen: Look, about: About) -> str:
    """What a generation did, in a line for the history."""
    newest = next_number(seen.seen.kept) - 1
    done = f"close off {newest}: nothing was left to do" if seen.plan.empty else summary(seen.plan)
    # The next generation's spec does not know these hosts any more: nothing else tells of them then.
    gone = departed(seen.topology.spec, seen.seen).items()
    left = [f"left {host} behind with {', '.join(names)}" for host, names in gone]
    back = f"roll back to {about.restores}: " if about.restores else ""
    return back + "; ".join([done, *left])
