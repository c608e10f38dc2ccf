"""What hosts keep -> generations: numbers, what they retain, what was cut off, what a new one keeps. Pure."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pdctl.apply.ages import age
from pdctl.hosts.observation import Generation, Kept
from pdctl.plan.model import Action, Plan
from pdctl.state import Key, State
from pdctl.state.codec import resource_to_json

COMPLETE, STARTED, BROKEN, PARTIAL = "complete", "started", "broken", "partial"
# How a generation ended of which hosts say different things: the first of these that any of them says.
WORST = (BROKEN, STARTED, "interrupted", "failed", PARTIAL, "abandoned", COMPLETE)
NAMED = 4  # units in a summary


def one_life(found: Mapping[str, Kept]) -> dict[str, Kept]:
    """Without what a host still keeps of an earlier life of the cluster: it was destroyed while that host
    could not be reached, and numbers began anew. The present life is that of the youngest generation."""
    rows = [row for kept in found.values() for row in kept.generations if row.life]
    if len({row.life for row in rows}) < 2:
        return dict(found)
    life = min(rows, key=lambda row: row.age_s).life
    return {host: _of_life(kept, life) for host, kept in found.items()}


def life_of(found: Mapping[str, Kept]) -> str:
    """Empty before the first generation."""
    lives = (row.life for kept in found.values() for row in reversed(kept.generations) if row.life)
    return next(lives, "")


def bygone_lines(found: Mapping[str, Kept]) -> list[str]:
    return [
        f"{host} still keeps generations {kept.bygone[0]} to {kept.bygone[-1]} of before the cluster was"
        " destroyed: they are left out, and go with the next apply that has work there"
        for host, kept in found.items()
        if kept.bygone
    ]


def state_of(found: Mapping[str, Kept], number: int) -> str:
    """How a generation ended: complete where all hosts that have it say so."""
    states = {row.state for kept in found.values() for row in kept.generations if row.number == number}
    return next((state for state in WORST if state in states), STARTED)


def numbers(found: Mapping[str, Kept]) -> list[int]:
    return sorted({row.number for kept in found.values() for row in kept.generations})


def complete(found: Mapping[str, Kept]) -> list[int]:
    return [number for number in numbers(found) if state_of(found, number) == COMPLETE]


def current(found: Mapping[str, Kept]) -> int:
    """The newest one that was reached in whole; 0 before the first."""
    return max(complete(found), default=0)


def stands_for(found: Mapping[str, Kept], number: int) -> int:
    """The generation that this one brought back, if it did; else itself."""
    seen = set[int]()
    while number not in seen:
        seen.add(number)
        number = next((row.restores for row in _all(found, number) if row.restores), number)
    return number


def next_number(found: Mapping[str, Kept]) -> int:
    return max(numbers(found), default=0) + 1


def oldest_kept(done: list[int], keep: int) -> int:
    """The oldest that can be rolled back to when `keep` are kept; 0 while there are fewer."""
    return done[-keep] if len(done) >= keep else 0


def retained(found: Mapping[str, Kept], keep: int) -> frozenset[Key]:
    """Environments of the newest `keep` generations, and the folders they lie in: a rollback needs them."""
    if keep < 1:
        return frozenset()
    oldest = oldest_kept(complete(found), keep)
    paths = {(host, path) for host, kept in found.items() for path in _venvs(kept, oldest)}
    folders = {(host, above) for host, path in paths for above in _above(path)}
    return frozenset(
        {Key(host, f"venv:{path}") for host, path in paths}
        | {Key(host, f"directory:{path}") for host, path in folders}
    )


def held_at(kept: Kept, number: int) -> Generation | None:
    """What a host held at a generation: that of its newest complete one up to it."""
    return next((row for row in reversed(kept.generations) if row.number <= number and _done(row)), None)


def host_rows(desired: State, host: str) -> list[dict[str, Any]]:
    """All that the host shall hold, whole, so that a later pdctl can bring it back although it would render
    it otherwise."""
    return rows_by_host(desired, [host])[host]


def rows_by_host(desired: State, hosts: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """The same for many hosts, in one go through all that is desired."""
    found: dict[str, list[dict[str, Any]]] = {host: [] for host in hosts}
    for key, resource in sorted(desired.items()):
        if key.host in found:
            found[key.host].append(resource_to_json(resource, full=True))
    return found


def rows_digest(rows: list[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest() if rows else ""


def takes_part(found: Mapping[str, Kept], plan: Plan, desired: State) -> dict[str, list[dict[str, Any]]]:
    """Hosts that get a manifest, with its rows: those the plan touches, and those whose newest complete one
    says something else (an apply was cut off after it had done all there was to do)."""
    busy = {key.host for step in plan.steps for key in step.keys}
    busy |= {change.key.host for change in plan.changes} | {restart.host for restart in plan.restarts}
    rows = rows_by_host(desired, found)
    return {
        host: some
        for host, some in rows.items()
        if host in busy or rows_digest(some) != _newest_digest(found[host])
    }


def manifest_header(rows: list[dict[str, Any]], about: Mapping[str, Any]) -> dict[str, Any]:
    """What a host keeps in `generations/N.json` beside the references to rows and spec."""
    venvs = [row["path"] for row in rows if row["kind"] == "venv"]
    return {**about, "digest": rows_digest(rows), "venvs": venvs}


def summary(plan: Plan) -> str:
    """`create 12, update 3; restart decoder-0, decoder-1`, for the history."""
    words = {
        Action.CREATE: "create",
        Action.UPDATE: "update",
        Action.DELETE: "delete",
        Action.FORGET: "forget",
    }
    waiting = plan.waiting
    done = [change for change in plan.changes if change.key not in waiting]
    counts = {word: sum(c.action is action for c in done) for action, word in words.items()}
    parts = [", ".join(f"{word} {count}" for word, count in counts.items() if count)]
    names = [restart.instance for restart in plan.restarts]
    if names:
        parts.append("restart " + (", ".join(names) if len(names) <= NAMED else f"{len(names)} instances"))
    hosts = plan.reboots.hosts
    if hosts:
        parts.append("reboot " + (", ".join(hosts) if len(hosts) <= NAMED else f"{len(hosts)} hosts"))
    return "; ".join(part for part in parts if part) or "record what is there"


def is_whole(found: Mapping[str, Kept]) -> bool:
    """Whether nothing of the newest generation is left open: neither cut off, nor made of a part only."""
    newest = max(numbers(found), default=0)
    return not newest or state_of(found, newest) in (COMPLETE, BROKEN, "abandoned")


def unfinished(found: Mapping[str, Kept]) -> str:
    """What an apply that did not come to its end was at; empty when the last one did."""
    number = max(numbers(found), default=0)
    state = state_of(found, number)
    if is_whole(found) or state == PARTIAL:
        return ""
    row = min(_all(found, number), key=lambda row: row.age_s)
    ended = {"failed": "failed", "interrupted": "was interrupted"}.get(state, "was cut off")
    return f"generation {number} ({row.by}, {age(row.age_s)} ago) {ended}{_where(found, number)}"


def way_on(found: Mapping[str, Kept]) -> str:
    """What goes on where the newest one ended."""
    back = next((row.restores for row in _all(found, max(numbers(found))) if row.restores), None)
    if back is None:
        return "`pdctl apply` goes on from there"
    return f"`pdctl rollback {back}` goes on from there, `pdctl apply` forward to the spec"


def broken_lines(found: Mapping[str, Kept]) -> list[str]:
    """Files of the history that say nothing any more, one line each: no plan needs them."""
    return [
        f"{host}: {line}; put it back from a backup, or forget it: rm -r {shlex.quote(line.split(': ')[0])}"
        for host, kept in found.items()
        for line in kept.broken
    ]


def _where(found: Mapping[str, Kept], number: int) -> str:
    entries = [kept.journal for kept in found.values() if kept.journal and kept.journal.generation == number]
    for event, words in (("begin", "in"), ("failed", "in"), ("end", "after")):
        some = [entry for entry in entries if entry.event == event]
        if some:
            return f' {words} step "{min(some, key=lambda entry: entry.age_s).step}"'
    return " before its first step"


def _of_life(kept: Kept, life: str) -> Kept:
    bygone = tuple(row.number for row in kept.generations if row.life not in ("", life))
    if not bygone:
        return kept
    return replace(
        kept,
        generations=tuple(row for row in kept.generations if row.number not in bygone),
        spec_text=None if kept.spec_text and kept.spec_text.number in bygone else kept.spec_text,
        journal=None if kept.journal and kept.journal.generation in bygone else kept.journal,
        bygone=bygone,
    )


def _all(found: Mapping[str, Kept], number: int) -> list[Generation]:
    return [row for kept in found.values() for row in kept.generations if row.number == number]


def _done(row: Generation) -> bool:
    return row.state == COMPLETE


def _newest_digest(kept: Kept) -> str:
    return next((row.digest for row in reversed(kept.generations) if _done(row)), "")


def _venvs(kept: Kept, oldest: int) -> Iterable[str]:
    at_oldest = held_at(kept, oldest)
    for row in kept.generations:
        if _done(row) and (row.number > oldest or row is at_oldest):
            yield from row.venvs


def _above(path: str) -> Iterable[str]:
    parts = path.split("/")[1:-1]
    return ("/" + "/".join(parts[:count]) for count in range(1, len(parts) + 1))
