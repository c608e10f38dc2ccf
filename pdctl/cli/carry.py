"""A plan carried out under a live view, and looked at again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from pdctl.apply.ending import raise_for
from pdctl.apply.generations import PARTIAL
from pdctl.apply.look import Look, look_for, within
from pdctl.apply.making import DESTROY, About, came_out, making, unmaking
from pdctl.apply.requests import Supply
from pdctl.apply.run import Done, remove, run
from pdctl.apply.supply import supply_for
from pdctl.errors import ErrorGroup, UnfinishedError
from pdctl.hosts.ansible import Event
from pdctl.hosts.sessions import Sessions
from pdctl.hosts.timing import laps
from pdctl.plan.document import plan_document
from pdctl.state import State
from pdctl.views.progress import Progress


def carry_out(
    seen: Look, bundle: Path | None, console: Console, about: About, sessions: Sessions
) -> dict[str, tuple[str, ...]]:
    """What was done, by host, under the lock of all of them and as a generation of its own.

    Raises LockError when somebody else is at work, ErrorGroup for hosts that failed, ApplyError if something
    still differs afterwards.
    """
    with Progress(console) as progress:
        supply = _collected(seen, bundle, progress)
    with making(sessions, seen, about, say) as held:
        with Progress(console) as progress:
            done = run(seen, supply, follow(progress), held)
        after = _look_again(seen, done, seen.desired, sessions)
        came_out(held, seen, after, [error.where for error in done.errors if error.where])
        did = _settled(seen, done, after, about.again)
        if seen.selection:  # what was left out is no failure
            held.otherwise = PARTIAL
        return did


def take_away(seen: Look, console: Console, sessions: Sessions) -> dict[str, tuple[str, ...]]:
    """The same for destroy, which leaves no generation."""
    with unmaking(sessions, seen, say) as held:
        with Progress(console) as progress:
            done = remove(seen, follow(progress), held)
        return _settled(seen, done, _look_again(seen, done, {}, sessions), DESTROY)


def say(line: str) -> None:
    """A word about the lock, beside the live view."""
    sys.stderr.write(f"{line}\n")


def follow(progress: Progress) -> Callable[[Event], None]:
    """Ansible's events as lines of the view: a play is a step, a host's last task its end."""

    def on_event(event: Event) -> None:
        if event.kind == "play":
            progress.step(event.task)
        elif event.kind == "started":
            progress.begin(event.host, event.task)
        elif event.kind == "skipped":
            progress.skipped(event.host)
        elif event.kind in ("ok", "failed", "unreachable"):
            progress.done(event.host, event.kind, [*event.data.get("did", ()), *event.msg.splitlines()])
        elif event.kind == "notice":
            progress.note(event.msg)

    return on_event


def _collected(seen: Look, bundle: Path | None, progress: Progress) -> Supply:
    begun: list[str] = []

    def on_line(line: str) -> None:
        if not begun:
            progress.step("Collect wheels and packages on this machine")
            begun.append(line)
        progress.note(line)

    with laps("supply"):
        return supply_for(seen, bundle, on_line)


def _look_again(seen: Look, done: Done, desired: State, sessions: Sessions) -> Look:
    """That no host can be seen any more must not hide what went wrong on them, nor what was done."""
    try:
        with laps("second look"):
            return look_for(seen.topology, seen.folder, desired, sessions=sessions)
    except ErrorGroup as error:
        raise UnfinishedError(
            f"{error.message} after the work",
            (*done.errors, *error.errors),
            done.did,
            hint="mend the cause and run the same command again: it goes on where this ended",
        ) from None


def _settled(seen: Look, done: Done, after: Look, again: str) -> dict[str, tuple[str, ...]]:
    raise_for(done, seen, after, again)
    plan = within(after, seen.selection)
    waiting = {(key.host, key.id) for key in plan.waiting}
    left = [
        c
        for c in plan_document(plan)["changes"]
        if c["host"] in done.did and (c["host"], c["id"]) not in waiting
    ]
    if left:
        shown = "; ".join(f"{c['host']} {c['id']}: {', '.join(c['why'])}" for c in left[:5])
        raise UnfinishedError(
            f"still not as the spec says after apply: {shown}",
            (),
            done.did,
            hint="`pdctl diff` shows all of it",
        )
    return done.did
