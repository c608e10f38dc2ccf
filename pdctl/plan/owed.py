"""Restarts that nothing would tell any more once an apply was cut off: the record keeps them until then.

Most restarts follow from the process itself: its revision, argv, environment. Two kinds do not: that of a
process which read a file that is right again, and that of a prefiller which holds addresses of a decoder's
earlier life.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pdctl.desired.layout import instance_of
from pdctl.plan.model import Action, Change, Owed, Restart
from pdctl.plan.restarts import stale_peers
from pdctl.state import Key, State, Unit
from pdctl.topology.model import Role, Topology


def due(owed: Mapping[Key, Owed], desired: State, observed: State) -> dict[Key, tuple[str, ...]]:
    """The causes that still hold: of the process that runs, and about decoders that the spec has (again)."""
    instances = {_peer(key): r.instance for key, r in desired.items() if isinstance(r, Unit)}
    found = {}
    for key, debt in owed.items():
        now = observed.get(key)
        if key in desired and isinstance(now, Unit) and now.invocation == debt.invocation:
            back = [instances[name] for name in debt.peers if name in instances]
            found[key] = debt.causes + tuple(f"it may hold addresses of an earlier {name}" for name in back)
    return {key: causes for key, causes in found.items() if causes}


def owe(
    topology: Topology,
    desired: State,
    observed: State,
    changes: Sequence[Change],
    again: Sequence[Restart],
) -> Iterator[Owed]:
    """What this plan has to write down before it begins. `again` are its restarts."""
    for restart in again:
        key = Key(restart.host, f"unit:{restart.unit}")
        now = observed.get(key)
        if restart.hidden and isinstance(now, Unit):
            yield Owed(key, now.invocation, causes=restart.causes)
    gone = tuple(_gone_decoders(topology, changes)) if stale_peers(topology) else ()
    for key, unit in sorted(desired.items()):
        now = observed.get(key)
        prefills = isinstance(unit, Unit) and unit.role == Role.PREFILLER
        if gone and prefills and isinstance(now, Unit) and now.active == "active":
            yield Owed(key, now.invocation, peers=gone)


def _gone_decoders(topology: Topology, changes: Sequence[Change]) -> Iterator[str]:
    for change in changes:
        if change.action is Action.DELETE and isinstance(change.observed, Unit):
            unit = change.observed.name
            if instance_of(topology.cluster, unit).startswith(f"{Role.DECODER}-"):
                yield _peer(change.key)


def _peer(key: Key) -> str:
    """`gpu02/pdctl-chat-decoder-1.service`: LMCache knows a decoder by its address (0.3.10 pd_backend.py), so
    that on another host it is another one."""
    return f"{key.host}/{key.id.removeprefix('unit:')}"
