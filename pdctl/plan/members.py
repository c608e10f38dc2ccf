"""Work x the proxy -> the engines that a rollout reckons with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from pdctl.plan.front import Front
from pdctl.plan.left_out import unseen_members
from pdctl.plan.rollout import Member
from pdctl.plan.work import Work
from pdctl.state import Key
from pdctl.topology.model import Role


def rolled(work: Work, halting: Sequence[Key]) -> set[Key]:
    """Engines that run and restart, and are not stopped before."""
    units = work.units
    return {
        key
        for key in work.restarted
        if work.runs(key) and key not in halting and key in units and units[key].role != Role.PROXY
    }


def members(
    work: Work, door: Front, rolls: Set[Key], halting: Sequence[Key], down: Set[Key], *, early: bool
) -> list[Member]:
    """The engines of the spec that run, will before the first batch, or may, by number: the first are
    canaries. `down`: those that do not run and are started where their host has been rebooted."""
    starting = {c.key for c in work.kept if c.key in work.units and not work.runs(c.key)}
    # One that waits for its gate while it is drained serves no earlier than one that does not run yet.
    starting |= {*halting, *(key for key in work.unproven if work.instance(key) in door.drained)}
    return sorted(
        [*_seen(work, door, rolls, starting - down, down, early=early), *unseen_members(work, door)],
        key=lambda member: _number(member.name),
    )


def _seen(
    work: Work, door: Front, rolls: Set[Key], starting: Set[Key], down: Set[Key], *, early: bool
) -> Iterator[Member]:
    for key, unit in work.units.items():
        if unit.role != Role.PROXY:
            listed = door.known - (door.moved if key in starting else frozenset())
            yield Member(
                unit.instance,
                Role(unit.role),
                key,
                rolls=key in rolls or key in down,
                moves=key in rolls and unit.instance in door.moved,
                starts=key in starting,
                known=early or unit.instance in listed,
                apart=unit.instance in door.drained | door.sides,
                down=key in down,
            )


def _number(instance: str) -> tuple[int, str]:
    """`decoder-10` comes after `decoder-9`."""
    number = instance.rsplit("-", 1)[-1]
    return int(number) if number.isdigit() else 0, instance
