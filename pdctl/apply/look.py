"""Spec -> what is wanted, what is there, and the plan between them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from pathlib import Path

from pdctl.apply.boots import boots_of, without_stuck
from pdctl.apply.departed import departed_warnings
from pdctl.apply.generations import broken_lines, bygone_lines, one_life, retained, unfinished, way_on
from pdctl.apply.lock import is_live, lock_lines
from pdctl.apply.secure_boot import without_unsigned_drivers
from pdctl.apply.strays import stray_warnings, without_lost_records
from pdctl.apply.systems import without_other_systems
from pdctl.desired import desire
from pdctl.errors import ErrorGroup, PdctlError
from pdctl.hosts.observation import Observation
from pdctl.hosts.probe import Progress, probe
from pdctl.hosts.secrets import secrets_digest
from pdctl.hosts.sessions import Sessions
from pdctl.hosts.timing import laps
from pdctl.plan import Owed, Plan, make_plan
from pdctl.plan.dependents import select
from pdctl.plan.reboots import Boots
from pdctl.plan.removal import dismantled
from pdctl.plan.targets import Selection, Targets, World, hosts_named, narrowed
from pdctl.state import Key, State
from pdctl.topology.claims import claims
from pdctl.topology.model import Topology


@dataclass(frozen=True)
class Look:
    """One look at the hosts. Nothing in it is cached from an earlier one."""

    topology: Topology
    folder: Path  # where the spec lies; relative paths in it start there
    desired: State
    seen: Observation
    plan: Plan
    selection: Selection | None = None  # the part that targets leave of it; None for all
    downgrades: bool = False  # whether packages may become older

    @property
    def failures(self) -> list[PdctlError]:
        return list(self.seen.failures.values())

    @property
    def beyond(self) -> list[str]:
        """Hosts that could not be looked at, and on which the targets name nothing."""
        if not self.selection:
            return []
        return sorted(self.seen.failures.keys() - hosts_named(self.topology, self.selection.targets))

    @property
    def concerning(self) -> list[PdctlError]:
        """The failures of the other hosts: what was asked for could not be done, or looked at, there."""
        beyond = self.beyond
        return [error for host, error in self.seen.failures.items() if host not in beyond]

    @property
    def warnings(self) -> list[str]:
        """Also who holds the lock; or else what the last apply was at, if it did not come to its end."""
        found = self.seen.kept
        cut_off = "" if is_live(found) else unfinished(found)
        goes_on = [f"{cut_off}; {way_on(found)}"] if cut_off and not self.plan.empty else []
        gone = departed_warnings(self.topology.spec, self.seen)
        return [
            *stray_warnings(self.seen),
            *gone,
            *lock_lines(found),
            *broken_lines(found),
            *bygone_lines(found),
            *goes_on,
        ]


def look(
    topology: Topology,
    folder: Path,
    progress: Progress | None = None,
    sessions: Sessions | None = None,
    targets: Targets | None = None,
) -> Look:
    """Probe every host once and plan. Raises ErrorGroup when no host at all could be looked at, ApplyError
    when `targets` name what is not there."""
    seen = look_for(topology, folder, wish(topology, folder), progress, sessions)
    return narrow(seen, targets) if targets else seen


def wish(topology: Topology, folder: Path) -> State:
    """The desired state, with the digest of secrets that only the controller can read."""
    with laps("desire"):
        return desire(topology, secrets_digest(topology.spec, folder))


def look_for(
    topology: Topology,
    folder: Path,
    desired: State,
    progress: Progress | None = None,
    sessions: Sessions | None = None,
) -> Look:
    """The same for another wish, such as nothing at all (destroy). `sessions` are used and left open."""
    with laps("probe"):
        seen = probe(
            topology.spec, desired, folder, progress=progress, sessions=sessions, claims=claims(topology)
        )
    with laps("plan"):
        return judge(topology, folder, desired, seen)


def judge(topology: Topology, folder: Path, desired: State, seen: Observation) -> Look:
    """Plan from what was seen. Raises ErrorGroup when no host is left to plan for."""
    if not seen.facts:
        raise ErrorGroup("no host could be looked at", list(seen.failures.values()))
    seen = replace(seen, kept=one_life(seen.kept))
    seen = without_other_systems(topology, desired, seen)
    if not seen.facts:
        raise ErrorGroup("no host is as the spec says", list(seen.failures.values()))
    seen = without_unsigned_drivers(topology, desired, seen)
    if not seen.facts:
        raise ErrorGroup("no host can load the driver that it shall have", list(seen.failures.values()))
    seen = without_lost_records(topology.cluster, desired, seen)
    if not seen.facts:
        raise ErrorGroup("no host has a record", list(seen.failures.values()))
    plan = _plan_with_history(topology, desired, seen)
    rest = without_stuck(desired, seen, plan)
    if rest is not seen:
        seen = rest
        if not seen.facts:
            raise ErrorGroup("every host needs a reboot first", list(seen.failures.values()))
        plan = _plan_with_history(topology, desired, seen)
    return Look(topology, folder, desired, seen, plan if desired else dismantled(topology, plan, seen.state))


def narrow(seen: Look, targets: Targets) -> Look:
    """The same look, and a plan of what the targets name and of what depends on it."""
    with laps("plan"):
        world = world_of(seen)
        selection = select(seen.topology, world, targets, lambda part: _plan(seen.topology, part, seen.seen))
        plan = _plan(seen.topology, narrowed(world, selection.keys), seen.seen)
        return replace(seen, plan=plan, selection=selection.told(plan))


def within(seen: Look, selection: Selection | None) -> Plan:
    """What is left to do of an earlier selection."""
    if selection is None:
        return seen.plan
    return _plan(seen.topology, narrowed(world_of(seen), selection.keys), seen.seen)


def world_of(seen: Look) -> World:
    """What the plan was made from, without the environments that are kept for a rollback."""
    keep = seen.topology.spec.generations.keep
    kept = retained(seen.seen.kept, keep) if seen.desired else frozenset()
    return _world(seen.desired, seen.seen, kept, boots_of(seen.topology, seen.seen))


def _plan_with_history(topology: Topology, desired: State, seen: Observation) -> Plan:
    """Environments that a rollback needs stay. Only an apply that changes something makes a generation, for
    which the oldest one goes: so what only that one needs is no reason for an apply, but goes with it."""
    keep = topology.spec.generations.keep
    now, later = (retained(seen.kept, count) if desired else frozenset[Key]() for count in (keep, keep - 1))
    boots = boots_of(topology, seen)
    plan = _plan(topology, _world(desired, seen, now, boots), seen)
    return plan if plan.empty or now == later else _plan(topology, _world(desired, seen, later, boots), seen)


def _world(desired: State, seen: Observation, kept: Set[Key], boots: Boots) -> World:
    return World(
        desired,
        _without(seen.state, kept - desired.keys()),
        _without(seen.recorded, kept - desired.keys()),
        seen.contents,
        _pending(seen),
        _unproven(seen),
        _owed(seen),
        boots,
    )


def _plan(topology: Topology, world: World, seen: Observation) -> Plan:
    return make_plan(
        topology,
        world.desired,
        world.observed,
        world.recorded,
        contents=world.contents,
        found_before=_found_before(seen),
        pending=world.pending,
        unproven=world.unproven,
        owed=world.owed,
        unreachable={host: error.message for host, error in seen.failures.items()},
        boots=world.boots,
    )


def _without(state: State, keys: Set[Key]) -> State:
    return {key: resource for key, resource in state.items() if key not in keys} if keys else state


def _pending(seen: Observation) -> frozenset[Key]:
    return frozenset(Key(host, name) for host, meta in seen.records.items() for name in meta.pending)


def _unproven(seen: Observation) -> dict[Key, str]:
    found = [(host, meta.unproven) for host, meta in seen.records.items()]
    return {Key(host, name): why for host, some in found for name, why in some.items()}


def _owed(seen: Observation) -> dict[Key, Owed]:
    found = [
        (Key(host, name), debt) for host, meta in seen.records.items() for name, debt in meta.owed.items()
    ]
    return {key: Owed(key, debt.invocation, debt.causes, debt.peers) for key, debt in found}


def _found_before(seen: Observation) -> frozenset[Key]:
    """What the records say existed before pdctl touched it."""
    return frozenset(
        Key(host, name)
        for host, meta in seen.records.items()
        for name, created in {**meta.created, **meta.pending}.items()
        if not created
    )
