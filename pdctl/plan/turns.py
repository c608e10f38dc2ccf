"""Steps -> the same, in which files that one running unit alone reads are put where that unit restarts.

Until its turn comes, what crashes and what a reboot starts must come up as it was: a canary that failed would
otherwise leave all others one crash away from what it failed with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pdctl.plan.belonging import instance_of_key
from pdctl.plan.front import Front
from pdctl.plan.model import Step, StepKind
from pdctl.plan.work import Work
from pdctl.state import File, Key


def in_their_turn(work: Work, door: Front, found: Sequence[Step]) -> Iterator[Step]:
    """Where the proxy is told to read its list before it is restarted or looked after, that list is there
    from the beginning. What reads none of them yet (it does not run) finds them there too."""
    told = any(step.reload for step in found)
    waits = {key for key in work.restarted if work.runs(key)} | ({door.key} if door.runs else set())
    waits -= {door.key} if told else set()
    turns = {key for step in found if step.kind is StepKind.UNITS for key in step.keys if key in waits}
    mine = _files(work, turns)
    later = {file for files in mine.values() for file in files}
    for step in found:
        if step.kind is StepKind.PUT:
            yield replace(step, keys=tuple(key for key in step.keys if key not in later))
        elif step.kind is StepKind.UNITS:
            files = [file for key in step.keys for file in mine.get(key, ())]
            yield replace(step, keys=(*sorted(files), *step.keys)) if files else step
        else:
            yield step


def _files(work: Work, units: set[Key]) -> dict[Key, list[Key]]:
    """Changed files of each of the units that no other reads, and that need nothing but their content."""
    of = {(key.host, work.instance(key)): key for key in units}
    found: dict[Key, list[Key]] = {}
    for change in work.kept:
        owner = (change.key.host, instance_of_key(work.topology.cluster, change.key))
        row = change.desired
        if owner in of and isinstance(row, File) and row.content is not None and not row.secret:
            found.setdefault(of[owner], []).append(change.key)
    return found
