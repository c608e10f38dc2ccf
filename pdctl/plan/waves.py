"""Prefillers and decoders that restart together -> waves over two sides, so that no wrong pair is ever made.

The proxy pairs instances of one side only. A wave takes some decoders and some prefillers away from the old
side, restarts them and puts them on the new one. So no prefiller that still has to restart ever speaks to a
decoder that has restarted (it would use addresses of its former life), no prefiller that has restarted learns
the addresses of a decoder that still will, and every engine restarts once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from pdctl.plan.batches import Batch, batches, spread
from pdctl.plan.front import Front
from pdctl.plan.model import Step
from pdctl.plan.rollout import Group, Member, Steps, rolling, some, told, unsure, without_proxy
from pdctl.spec.serving import Rollout
from pdctl.topology.model import Role


@dataclass(frozen=True)
class Tie:
    """Why and how two roles are tied in one plan. `fresh`: on the new side before the first wave. `unseen`:
    on hosts that were left out; they stay on the old side, and nobody relies on them."""

    members: tuple[Member, ...]
    fresh: frozenset[str]
    unseen: tuple[Member, ...] = ()

    @property
    def maybe(self) -> list[Member]:
        """Those of them that the proxy goes on to ask."""
        return [m for m in self.unseen if m.known]

    def of(self, role: Role) -> list[Member]:
        return [m for m in self.members if m.role == role]


def tie(members: Sequence[Member], front: Front, *, stale: bool) -> Tie | None:
    """None when the roles can be restarted one after the other. `stale`: prefillers keep addresses."""
    prefillers = [m for m in members if m.role == Role.PREFILLER and not m.unseen]
    decoders = [m for m in members if m.role == Role.DECODER and not m.unseen]
    roll = any(m.rolls for m in decoders)
    # A prefiller that starts learns the addresses of decoders as one that restarts does.
    if not front.listens or not any(m.rolls or (m.starts and roll) for m in prefillers):
        return None
    # One that was left drained or apart may have been restarted after the prefillers learned its addresses.
    new = [m for m in decoders if not m.rolls and (m.starts or (stale and m.apart))]
    both = [m for m in (*prefillers, *decoders) if not m.starts]
    everything = roll and any(m.rolls for m in prefillers) and all(m.rolls for m in both)
    if not everything and not (stale and (new or roll)):
        return None
    if not any(m.rolls and m.name not in front.drained for m in prefillers):
        # Who serves the old side leaves: what is on the new one needs somebody.
        new = [m for m in decoders if not m.rolls]
    fresh = {m.name for m in (*new, *(p for p in prefillers if not p.rolls))}
    return Tie((*prefillers, *decoders), frozenset(fresh), tuple(m for m in members if m.unseen))


def apart(tied: Tie, front: Front) -> list[Step]:
    """The step that keeps what is new, or about to start, from what still has to restart."""
    if not tied.fresh:
        return []
    steps = Steps(front, (*tied.members, *tied.unseen))
    starting = {m.name for m in tied.members if m.starts} | front.drained  # undrained with the first wave
    # After a rollout that was cut off, all that serves may stand on the side that is given up.
    away = "" if _a_pair(steps, tied.fresh, starting) else "nothing is answered until the first wave is back"
    if away and _a_pair(steps, tied.fresh, starting, unseen=True):
        away = unsure(tied.maybe, ["the first wave"])
    return [replace(told(front, "apart", (), (), tied.fresh), outage=away)]


def waves(
    tied: Tie,
    front: Front,
    rollout: Rollout,
    held: Collection[str],
    groups: Sequence[Group] = (),
    *,
    reload: bool = False,
    ends: bool = True,
) -> list[Step]:
    """Steps of a tied rollout, in which sides are set before the first wave and ended after the last.

    `reload`: the proxy takes up its new list with the first wave. `ends`: else a prefiller that leaves is
    kept apart until the proxy forgets it, and the proxy's step ends the sides. Each of `groups` is a wave of
    its own, in which hosts reboot.
    """
    steps = Steps(front, (*tied.members, *tied.unseen), tuple(sorted(held)), dirty=reload)
    steps.sides = tied.fresh or front.sides
    new = dict.fromkeys(sorted(tied.fresh))  # in order, so that each of 2,000 waves need not sort it again
    parts = _waves(tied, rollout, groups)
    moves = any(m.moves for m in tied.members)
    for number, (batch, group) in enumerate(parts, 1):
        # What neither restarts nor has restarted serves the old side as long as there is one.
        sides = {m.name for m in tied.members if m.name not in batch} if number == len(parts) else new
        away = ""
        if group and group.proxy:
            away = without_proxy(group)
            steps.drain(batch, sides, reload=steps.dirty, others=False, outage=away)
        elif _a_pair(steps, sides, batch):
            steps.drain(batch, sides, reload=steps.dirty)
        elif _a_pair(steps, sides, batch, unseen=True):
            away = unsure(tied.maybe, batch)
            steps.drain(batch, sides, reload=steps.dirty, others=False, outage=away)
        else:
            away = f"nothing is answered until {some(batch)} {'is' if len(batch) == 1 else 'are'} back"
            decoders_only = {m.name for m in tied.of(Role.DECODER)}  # no pair at all
            # Before a reboot, which takes minutes, what they work on may end.
            steps.drain(
                batch if group else (), decoders_only, reload=steps.dirty, others=not group, outage=away
            )
        if group:
            steps.reboot(group, away)
        if batch:
            steps.restart(batch, away)
        if moves and number == 1:
            steps.moved()
        new = dict.fromkeys(sorted([*new, *batch]))
    return steps.finish(sides=() if ends else {m.name for m in tied.members})


def _waves(tied: Tie, rollout: Rollout, groups: Sequence[Group]) -> list[tuple[Batch, Group | None]]:
    """Whom each wave takes away: hosts that reboot, what else restarts, and at the end the proxy's host."""
    own = {name for group in groups for name in group.names}
    rest = replace(tied, members=tuple(replace(m, rolls=m.rolls and m.name not in own) for m in tied.members))
    reboots = [(group.names, group) for group in groups]
    others = [((*decoders, *prefillers), None) for prefillers, decoders in _parts(rest, rollout)]
    first = [wave for wave in reboots if not wave[1].proxy]
    return [*first, *others, *(wave for wave in reboots if wave[1].proxy)]


def _parts(tied: Tie, rollout: Rollout) -> list[tuple[Batch, Batch]]:
    """(prefillers, decoders) of each wave.

    The last old decoder needs an old prefiller and the other way round, so both roles end in the last wave.
    Where any gets another address there are two: the proxy reaches either part by one of its two lists.
    """
    prefillers, decoders = tied.of(Role.PREFILLER), tied.of(Role.DECODER)
    many = batches(rolling(prefillers), rollout, sum(not m.rolls for m in prefillers))
    more = batches(rolling(decoders), rollout, sum(not m.rolls for m in decoders))
    if any(m.moves for m in tied.members):
        many, more = _halved(many), _halved(more)
    steady = [m for m in decoders if not m.rolls and m.name not in tied.fresh]
    count = max(len(many), len(more))
    return list(zip(spread(many, count, last=True), spread(more, count, last=not steady), strict=True))


def _halved(parts: list[Batch]) -> list[Batch]:
    rest = tuple(name for part in parts[1:] for name in part)
    return [*parts[:1], rest] if rest else parts


def _a_pair(steps: Steps, new: Collection[str], away: Collection[str], *, unseen: bool = False) -> bool:
    """Whether a request can be served while `away` are; `unseen`: maybe by those that nobody looked at."""
    roles = (Role.PREFILLER, Role.DECODER)
    one, two = (steps.sides_with(role, new, away, unseen=unseen) for role in roles)
    return bool(one & two)
