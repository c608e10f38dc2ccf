"""The arrow (topology, desired, observed, recorded) -> Plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from pdctl.plan.diff import diff
from pdctl.plan.drift import drift
from pdctl.plan.front import front
from pdctl.plan.model import Change, Owed, Plan, Reboots
from pdctl.plan.owed import due, owe
from pdctl.plan.reboots import Boots, reboots
from pdctl.plan.restarts import restarts
from pdctl.plan.steps import steps
from pdctl.plan.unrecorded import lost_hosts, unrecorded
from pdctl.plan.work import Work
from pdctl.state import Key, State, Unit
from pdctl.topology.model import Role, Topology


def make_plan(
    topology: Topology,
    desired: State,
    observed: State,
    recorded: State,
    *,
    contents: Mapping[Key, bytes] | None = None,
    found_before: Set[Key] = frozenset(),
    pending: Set[Key] = frozenset(),
    unproven: Mapping[Key, str] | None = None,
    owed: Mapping[Key, Owed] | None = None,
    unreachable: Mapping[str, str] | None = None,
    boots: Boots | None = None,
) -> Plan:
    """What has to be done on the hosts that could be looked at.

    `contents` are the bytes of files as they are now, for text diffs; `found_before` the keys that existed
    before pdctl came; `pending` those that an interrupted apply was at, `unproven` why units among them were
    not seen healthy, `owed` the restarts that were written
    down and may not have been done; `unreachable` the hosts left out, with the reason; `boots` what bears on
    reboots.
    """
    away = unreachable or {}
    wanted = {key: resource for key, resource in desired.items() if key.host not in away}
    found = diff(
        wanted, observed, recorded, contents=contents or {}, found_before=found_before, pending=pending
    )
    changes = tuple(found)
    unknown = tuple(unrecorded(wanted, observed, recorded, pending))
    lost = lost_hosts(topology.cluster, wanted, observed, recorded, pending)
    learned = tuple(row for row in unknown if row.key.host in lost)
    drifted = (*drift(recorded, observed, pending, wanted, unproven), *learned)
    still = due(owed or {}, wanted, observed)
    alone = _alone(topology, wanted, observed, away)
    told = _reboots(topology, wanted, observed, changes, contents or {}, boots or Boots(), alone)
    again = tuple(restarts(topology, wanted, observed, recorded, changes, still, told))
    # What another cluster or an administrator put there is no drift; an apply that works there records it.
    busy = {c.key.host for c in changes} | {r.host for r in again} | {d.key.host for d in drifted}
    shared = tuple(row for row in unknown if row.key.host in busy - lost)
    noted = (*drifted, *shared)
    unseen = tuple(i for i in topology.instances if i.host in away) if desired else ()
    return Plan(
        cluster=topology.cluster,
        changes=changes,
        drift=drifted,
        restarts=again,
        steps=steps(Work(topology, wanted, observed, changes, again, noted, contents or {}, unseen, told)),
        unreachable=dict(away),
        owed=tuple(owe(topology, wanted, observed, changes, again)),
        reboots=told,
    )


def _reboots(
    topology: Topology,
    wanted: State,
    observed: State,
    changes: Sequence[Change],
    contents: Mapping[Key, bytes],
    boots: Boots,
    alone: Mapping[str, str],
) -> Reboots:
    if not wanted:  # all of the cluster goes: what its driver is then, is nobody's concern here
        return Reboots()
    door = front(topology, wanted, observed, {}, contents)
    allowed = topology.spec.serving.rollout.allow_reboot
    moving = bool(door.moved or door.former)
    return reboots(changes, wanted, observed, boots, alone, allowed=allowed, moving=moving)


def _alone(topology: Topology, wanted: State, observed: State, away: Mapping[str, str]) -> dict[str, str]:
    """Hosts without which a role may serve no more, as others of it are on hosts that were left out: a host
    that did not come back from its own reboot must not take the next one with it."""
    serves: dict[str, dict[str, str]] = {}  # role -> instance -> host, of those that are known to
    for key, row in wanted.items():
        now = observed.get(key)  # which says nothing of roles
        if (
            isinstance(row, Unit)
            and isinstance(now, Unit)
            and now.active == "active"
            and row.role != Role.PROXY
        ):
            serves.setdefault(row.role, {})[row.instance] = key.host
    found: dict[str, str] = {}
    for each in topology.instances:
        hosts = set(serves.get(each.role, {}).values())
        if each.host in away and len(hosts) == 1:
            words = f"{each.host} was left out, and unless {each.name} there serves, no {each.role} would"
            found.setdefault(next(iter(hosts)), f"{words}: bring {each.host} back first")
    return found
