"""Spec -> what is wanted, what is there, and the plan between them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from pdctl.apply.generations import retained, unfinished
from pdctl.apply.lock import is_live, lock_lines
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

    @property
    def failures(self) -> list[PdctlError]:
        return list(self.seen.failures.values())

    @property
    def warnings(self) -> list[str]:
        """Also who holds the lock; or else what the last apply was at, if it did not come to its end."""
        found = self.seen.kept
        cut_off = "" if is_live(found) else unfinished(found)
        goes_on = [f"{cut_off}; `pdctl apply` goes on from there"] if cut_off and not self.plan.empty else []
        return [*stray_warnings(self.seen), *lock_lines(found), *goes_on]


def look(
    topology: Topology, folder: Path, progress: Progress | None = None, sessions: Sessions | None = None
) -> Look:
    """Probe every host once and plan. Raises ErrorGroup when no host at all could be looked at."""
    return look_for(topology, folder, wish(topology, folder), progress, sessions)


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
    seen = without_other_systems(topology, desired, seen)
    if not seen.facts:
        raise ErrorGroup("no host is as the spec says", list(seen.failures.values()))
    seen = without_lost_records(topology.cluster, desired, seen)
    if not seen.facts:
        raise ErrorGroup("no host has a record", list(seen.failures.values()))
    return Look(topology, folder, desired, seen, _plan_with_history(topology, desired, seen))


def _plan_with_history(topology: Topology, desired: State, seen: Observation) -> Plan:
    """Environments that a rollback needs stay. Only an apply that changes something makes a generation, for
    which the oldest one goes: so what only that one needs is no reason for an apply, but goes with it."""
    keep = topology.spec.generations.keep
    now, later = (retained(seen.kept, count) if desired else frozenset[Key]() for count in (keep, keep - 1))
    plan = _plan(topology, desired, seen, now)
    return plan if plan.empty or now == later else _plan(topology, desired, seen, later)


def _plan(topology: Topology, desired: State, seen: Observation, kept: Set[Key]) -> Plan:
    return make_plan(
        topology,
        desired,
        _without(seen.state, kept - desired.keys()),
        _without(seen.recorded, kept - desired.keys()),
        contents=seen.contents,
        found_before=_found_before(seen),
        pending=_pending(seen),
        owed=_owed(seen),
        unreachable={host: error.message for host, error in seen.failures.items()},
    )


def _without(state: State, keys: Set[Key]) -> State:
    return {key: resource for key, resource in state.items() if key not in keys} if keys else state


def _pending(seen: Observation) -> frozenset[Key]:
    return frozenset(Key(host, name) for host, meta in seen.records.items() for name in meta.pending)


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
