"""Who serves a request: at once, or after a wait in the queue.

With LMCache a request enters only when all of its KV will fit: 0.3.10 deadlocks when a decoder's buffer is
full, since its allocator waits for ever and blocks every prefiller. Nobody but the proxy can keep the buffer
from filling up. Decoder and prefiller are chosen together, so that nothing can come between the two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from .answers import RefusedError, busy, too_large, unavailable
from .config import Limits
from .fleet import Fleet
from .member import Member, Use
from .metrics import Sample

SLOTS = "slots"  # the group of all that wait for a pair with room for their KV


class Ends(Protocol):
    def end(self) -> None: ...


T = TypeVar("T", bound=Ends)


class Lease:
    """Slots held on one decoder until released, a pair of legs until ended; doing so twice is harmless."""

    def __init__(self, admission: Admission, member: Member, prefiller: Member, slots: int) -> None:
        self._admission = admission
        self.member = member
        self.slots = slots
        self.decode = member.use()
        self.prefill = prefiller.use()
        member.slots_used += slots

    def release(self) -> None:
        slots, self.slots = self.slots, 0
        if slots:
            self.member.slots_used -= slots
            self._admission.serve()

    def end(self) -> None:
        self.prefill.end()
        self.decode.end()
        self.release()


@dataclass(eq=False)
class Waiter:
    """`find` takes what it finds; `refusal` says why there is no sense in waiting any longer. Of those that
    ask for the same, of one `group`, nobody is served before who came earlier."""

    find: Callable[[], Ends | None]
    refusal: Callable[[], RefusedError | None]
    group: Hashable
    found: asyncio.Future[Ends] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Admission:
    def __init__(self, fleet: Fleet, limits: Limits) -> None:
        self._fleet = fleet
        self.limits = limits
        self._queue: list[Waiter] = []
        fleet.changed = self.review

    async def acquire(self, need: int, avoid: Collection[str] = ()) -> Lease:
        """A decoder with room for `need` slots, and a prefiller for it; first come, first served."""
        return await self._found(
            lambda: self._pair(need, avoid),
            lambda: self._refusal(need, avoid),
            group=SLOTS,
            late=lambda: "no room on a decoder",
        )

    async def choose(
        self,
        role: str,
        avoid: Collection[str] = (),
        partner: Member | None = None,
        needing: str | None = None,
    ) -> Use:
        """The least loaded instance of a role, in use; see `Fleet.best`."""

        def find() -> Use | None:
            member = self._fleet.best(role, avoid, partner, needing)
            return member.use() if member else None

        def refusal() -> RefusedError | None:
            # Only for the role itself are those to be avoided that failed this request.
            return self._fleet.hopeless([role], avoid) or self._fleet.hopeless([needing] if needing else [])

        def late() -> str:
            short = next((each for each in (role, needing) if each and not self._fleet.available(each)), role)
            return f"no {short} was undrained"

        return await self._found(find, refusal, group=(role, frozenset(avoid), partner, needing), late=late)

    async def _found(
        self,
        find: Callable[[], T | None],
        refusal: Callable[[], RefusedError | None],
        *,
        group: Hashable,
        late: Callable[[], str],
    ) -> T:
        if refused := refusal():
            raise refused
        found = None if any(waiter.group == group for waiter in self._queue) else find()
        if found is not None:
            return found
        if len(self._queue) >= self.limits.queue:
            raise busy(f"{len(self._queue)} requests are waiting for an instance that can take them")
        waiter = Waiter(find, refusal, group)
        self._queue.append(waiter)
        return await self._wait(waiter, late)  # type: ignore[return-value]  # what its own `find` has found

    async def _wait(self, waiter: Waiter, late: Callable[[], str]) -> Ends:
        try:
            await asyncio.wait({waiter.found}, timeout=self.limits.queue_wait_s)
            if not waiter.found.done():
                raise busy(f"{late()} within {self.limits.queue_wait_s:g} s")
        except asyncio.CancelledError:
            if waiter.found.done() and not waiter.found.exception():
                waiter.found.result().end()
            raise
        finally:
            if waiter in self._queue:
                self._queue.remove(waiter)
                self.serve()
        return waiter.found.result()

    def review(self) -> None:
        """An instance has come or gone: tell those who can never be placed now, and place whoever can."""
        for waiter in tuple(self._queue):
            if refused := waiter.refusal():
                self._queue.remove(waiter)
                waiter.found.set_exception(refused)
        self.serve()

    def serve(self) -> None:
        blocked: set[Hashable] = set()
        for waiter in tuple(self._queue):
            if waiter.group in blocked:
                continue
            found = waiter.find()
            if found is None:
                blocked.add(waiter.group)
                continue
            self._queue.remove(waiter)
            waiter.found.set_result(found)

    def _refusal(self, need: int, avoid: Collection[str]) -> RefusedError | None:
        decoders = self._fleet.of("decoder")
        largest = max(member.slots for member in decoders)
        if need > largest:
            return too_large(f"the prompt's KV takes {need} slots, a decoder's buffer has {largest}")
        hopeful = [member for member in decoders if member.promising and member.name not in avoid]
        if all(need > member.slots for member in hopeful):
            return unavailable("no healthy decoder that could hold this request")
        return self._fleet.hopeless(["prefiller"], avoid)

    def _pair(self, need: int, avoid: Collection[str]) -> Lease | None:
        fleet = self._fleet
        prefillers = fleet.by_side(fleet.available("prefiller", avoid))
        fitting = [
            member
            for member in fleet.available("decoder", avoid)
            if prefillers[fleet.side(member)] and member.slots_used + need <= member.slots
        ]
        if not fitting:
            return None
        decoder = min(
            fleet.turned(fitting), key=lambda each: self._burden(each, prefillers[fleet.side(each)])
        )
        prefiller = fleet.least_loaded(prefillers[fleet.side(decoder)], decoder.name)
        fleet.peers.meet(prefiller.name, decoder.name)
        return Lease(self, decoder, prefiller, need)

    def _burden(self, member: Member, prefillers: Collection[Member]) -> tuple[bool, int, float]:
        stale = self._fleet.stale
        only_stale = bool(stale) and all((each.name, member.name) in stale for each in prefillers)
        return (only_stale, member.in_flight, member.slots_used / member.slots)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def used(self, name: str) -> int:
        """Slots that are held on an instance, those of one that left under the same name included."""
        members = (*self._fleet.of("decoder"), *self._fleet.leaving)
        return sum(member.slots_used for member in members if member.name == name)

    def gauges(self) -> Iterator[Sample]:
        yield ("pdctl_proxy_queue_length", (), len(self._queue))
        for member in self._fleet.of("decoder"):
            if member.slots:
                labels = (("decoder", member.name),)
                yield ("pdctl_proxy_decoder_slots", labels, member.slots)
                yield ("pdctl_proxy_decoder_slots_used", labels, member.slots_used)
