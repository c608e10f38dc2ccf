"""Prefillers and decoders that restart together -> waves over two sides, so that no wrong pair is ever made.

The proxy pairs instances of one side only. A wave takes some decoders and some prefillers away from the old
side, restarts them and puts them on the new one. So no prefiller that still has to restart ever speaks to a
decoder that has restarted (it would use addresses of its former life), no prefiller that has restarted learns
the addresses of a decoder that still will, and every engine restarts once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pdctl.plan.batches import Batch, batches, spread
from pdctl.plan.front import Front
from pdctl.plan.model import Step
from pdctl.plan.rollout import Member, Steps, rolling, some
from pdctl.spec.serving import Rollout
from pdctl.topology.model import Role


@dataclass(frozen=True)
class Tie:
    """Why and how two roles are tied in one plan. `fresh`: on the new side before the first wave."""

    members: tuple[Member, ...]
    fresh: frozenset[str]

    def of(self, role: Role) -> list[Member]:
        return [m for m in self.members if m.role == role]


def tie(members: Sequence[Member], front: Front, *, stale: bool) -> Tie | None:
    """None when the roles can be restarted one after the other. `stale`: prefillers keep addresses."""
    prefillers = [m for m in members if m.role == Role.PREFILLER]
    decoders = [m for m in members if m.role == Role.DECODER]
    if not front.listens or not any(m.rolls for m in prefillers):
        return None
    # One that was left drained or apart may have been restarted after the prefillers learned its addresses.
    new = [m for m in decoders if not m.rolls and (m.starts or (stale and m.apart))]
    both = [m for m in (*prefillers, *decoders) if not m.starts]
    everything = any(m.rolls for m in decoders) and all(m.rolls for m in both)
    if not everything and not (stale and (new or any(m.rolls for m in decoders))):
        return None
    fresh = {m.name for m in (*new, *(p for p in prefillers if not p.rolls))}
    return Tie((*prefillers, *decoders), frozenset(fresh))


def waves(tied: Tie, front: Front, rollout: Rollout, held: Collection[str]) -> list[Step]:
    """Steps of a tied rollout, in which sides are set before the first wave and ended after the last."""
    steps = Steps(front, {m.name: m.key for m in tied.members}, tuple(sorted(held)))
    new = set(tied.fresh)
    parts = _parts(tied, rollout)
    for number, (prefillers, decoders) in enumerate(parts, 1):
        batch = (*decoders, *prefillers)
        # What neither restarts nor has restarted serves the old side as long as there is one.
        sides = {m.name for m in tied.members if m.name not in batch} if number == len(parts) else new
        if _a_pair(tied, sides, batch):
            steps.drain(batch, sides, reload=steps.dirty)
            steps.restart(batch)
        else:
            steps.drain((), {m.name for m in tied.of(Role.DECODER)}, reload=steps.dirty)
            steps.restart(batch, f"nothing is answered until {some(batch)} are back")
        if any(m.moves for m in tied.members):
            steps.moved()
        new |= set(batch)
    return steps.finish(sides=())


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


def _a_pair(tied: Tie, new: Collection[str], away: Collection[str]) -> bool:
    """Whether a request can be served while `away` are."""
    ready = [m for m in tied.members if m.known and m.name not in away]
    sides = {
        role: {m.name in new for m in ready if m.role == role} for role in (Role.PREFILLER, Role.DECODER)
    }
    return bool(sides[Role.PREFILLER] & sides[Role.DECODER])
