"""What a plan has found, before its order: who runs, restarts, comes and goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pdctl.desired.layout import instance_of
from pdctl.plan.model import Action, Change, Drift, Reboots, Restart
from pdctl.state import Key, Resource, State, Unit
from pdctl.topology.model import Instance, Role, Topology


@dataclass(frozen=True)
class Work:
    """What a plan has found, before its order."""

    topology: Topology
    wanted: State
    observed: State
    changes: Sequence[Change]
    restarts: Sequence[Restart]
    drift: Sequence[Drift]
    contents: Mapping[Key, bytes]
    unseen: Sequence[Instance] = ()  # engines on hosts that were left out: they may serve
    reboots: Reboots = field(default_factory=Reboots)

    @cached_property
    def units(self) -> dict[Key, Unit]:
        """Without engines that no step may start before their host has been rebooted."""
        return {key: r for key, r in self.wanted.items() if isinstance(r, Unit) and not self.rests(key, r)}

    def rests(self, key: Key, row: Resource | None) -> bool:
        return isinstance(row, Unit) and row.role != Role.PROXY and key.host in self.reboots.resting

    @cached_property
    def gone(self) -> list[Change]:
        return [c for c in self.changes if c.action in (Action.DELETE, Action.FORGET)]

    @cached_property
    def kept(self) -> list[Change]:
        ends = (Action.DELETE, Action.FORGET)
        return [c for c in self.changes if c.action not in ends and not self.rests(c.key, c.desired)]

    @cached_property
    def put(self) -> tuple[Key, ...]:
        """All but units, and but what is only changed in a reboot."""
        later = self.reboots.later
        return tuple(c.key for c in self.kept if not isinstance(c.desired, Unit) and c.key not in later)

    @cached_property
    def restarted(self) -> dict[Key, Restart]:
        return {Key(r.host, f"unit:{r.unit}"): r for r in self.restarts}

    @cached_property
    def unproven(self) -> set[Key]:
        """Units that run as wanted, not seen healthy since an apply touched them: a step asks them."""
        again = self.restarted
        return {d.key for d in self.drift if d.unproven and d.key in self.units and d.key not in again}

    def runs(self, key: Key) -> bool:
        """Whether a process serves, also that of a unit which has been masked since."""
        now = self.observed.get(key)
        return isinstance(now, Unit) and (
            now.active == "active" or (now.active == "masked" and now.revision != "")
        )

    def instance(self, key: Key) -> str:
        return instance_of(self.topology.cluster, key.id.removeprefix("unit:"))
