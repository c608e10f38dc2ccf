"""Slots of the decoders' KV buffers: a request enters only when all of its KV will fit.

LMCache 0.3.10 deadlocks when a decoder's buffer is full: its allocator waits for ever and blocks every
prefiller. Nobody but the proxy can keep the buffer from filling up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from .answers import RefusedError, busy, too_large, unavailable
from .config import Limits
from .fleet import Fleet, Member
from .metrics import Sample


class Lease:
    """Slots held on one decoder, until released; releasing twice is harmless."""

    def __init__(self, admission: Admission, member: Member, slots: int) -> None:
        self._admission = admission
        self.member = member
        self.slots = slots

    def release(self) -> None:
        self._admission.give_back(self)
        self.slots = 0


@dataclass(eq=False)
class Waiter:
    need: int
    avoid: Collection[str]
    lease: asyncio.Future[Lease] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Admission:
    def __init__(self, fleet: Fleet, limits: Limits) -> None:
        self._fleet = fleet
        self._limits = limits
        self._used = {member.name: 0 for member in fleet.of("decoder")}
        self._queue: deque[Waiter] = deque()
        fleet.changed = self.review

    async def acquire(self, need: int, avoid: Collection[str] = ()) -> Lease:
        """Hold `need` slots on the decoder with the most room; first come, first served if there is none."""
        if refusal := self._refusal(need, avoid):
            raise refusal
        member = None if self._queue else self._place(need, avoid)
        if member is not None:
            return self._take(member, need)
        if len(self._queue) >= self._limits.queue:
            raise busy(f"{len(self._queue)} requests are waiting for room on a decoder")
        waiter = Waiter(need, avoid)
        self._queue.append(waiter)
        return await self._wait(waiter)

    async def _wait(self, waiter: Waiter) -> Lease:
        try:
            await asyncio.wait({waiter.lease}, timeout=self._limits.queue_wait_s)
            if not waiter.lease.done():
                raise busy(f"no room on a decoder within {self._limits.queue_wait_s:g} s")
        except asyncio.CancelledError:
            if waiter.lease.done() and not waiter.lease.exception():
                waiter.lease.result().release()
            raise
        finally:
            if waiter in self._queue:
                self._queue.remove(waiter)
                self._serve()
        return waiter.lease.result()

    def review(self) -> None:
        """An instance has come or gone: tell those who can never be placed now, and place whoever can."""
        for waiter in tuple(self._queue):
            if refusal := self._refusal(waiter.need, waiter.avoid):
                self._queue.remove(waiter)
                waiter.lease.set_exception(refusal)
        self._serve()

    def give_back(self, lease: Lease) -> None:
        if lease.slots:
            self._used[lease.member.name] -= lease.slots
            self._serve()

    def _serve(self) -> None:
        while self._queue:
            member = self._place(self._queue[0].need, self._queue[0].avoid)
            if member is None:
                return
            waiter = self._queue.popleft()
            waiter.lease.set_result(self._take(member, waiter.need))

    def _refusal(self, need: int, avoid: Collection[str]) -> RefusedError | None:
        largest = max(member.slots for member in self._fleet.of("decoder"))
        if need > largest:
            return too_large(f"the prompt's KV takes {need} slots, a decoder's buffer has {largest}")
        if all(need > member.slots for member in self._fleet.available("decoder", avoid)):
            return unavailable("no healthy decoder that could hold this request")
        return None

    def _place(self, need: int, avoid: Collection[str]) -> Member | None:
        fitting = [
            member
            for member in self._fleet.available("decoder", avoid)
            if self._used[member.name] + need <= member.slots
        ]
        return min(self._fleet.turned(fitting), key=self._burden, default=None)

    def _burden(self, member: Member) -> tuple[bool, int, float]:
        prefillers = self._fleet.available("prefiller")
        only_stale = all((prefiller.name, member.name) in self._fleet.stale for prefiller in prefillers)
        return (only_stale, member.in_flight, self._used[member.name] / member.slots)

    def _take(self, member: Member, need: int) -> Lease:
        self._used[member.name] += need
        return Lease(self, member, need)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def used(self, name: str) -> int:
        return self._used[name]

    def gauges(self) -> Iterator[Sample]:
        yield ("pdctl_proxy_queue_length", (), len(self._queue))
        for member in self._fleet.of("decoder"):
            if member.slots:
                labels = (("decoder", member.name),)
                yield ("pdctl_proxy_decoder_slots", labels, member.slots)
                yield ("pdctl_proxy_decoder_slots_used", labels, self._used[member.name])
