"""One instance as the proxy sees it: whether it takes requests, and what it is still needed for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .config import Decoder, Server


class Use:
    """Something an instance is needed for: a request's leg at it, or KV on it. Ending twice is harmless."""

    def __init__(self, member: Member, *, leg: bool) -> None:
        self.member = member
        self._leg = leg
        self._ended = False
        member.count(leg, 1)

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self.member.count(self._leg, -1)


@dataclass
class Needs:
    """All that an instance is needed for, under its name: requests at its former addresses count too."""

    count: int = 0
    ended: float = field(default_factory=time.monotonic)  # the last of them; at first when it was added

    def add(self, step: int) -> None:
        self.count += step
        self.ended = time.monotonic()


@dataclass(eq=False)
class Member:
    role: str
    instance: Server | Decoder
    drained: bool = False  # by an operator: no new requests
    left: bool = False  # no longer in the configuration
    looked_at: bool = False  # since it is here; before, nobody knows how it is
    up: bool = False  # its /health answers
    was_up: bool = False
    out_until: float = 0.0  # loop time until which failed requests keep it out of rotation
    failures: int = 0  # failed requests in a row
    in_flight: int = 0  # requests with a leg at it, also those that only free KV there
    held: int = 0  # requests whose KV lies on it or is being sent by it, without a leg at it
    slots_used: int = 0
    orders: int = 0  # drains and undrains so far: a slow undrain must not undo a later drain
    needs: Needs = field(default_factory=Needs)  # shared by all members of this name
    started: float | None = None  # its process_start_time_seconds
    version: str | None = None
    simulated: bool = False

    @property
    def name(self) -> str:
        return self.instance.name

    @property
    def url(self) -> str:
        return self.instance.url.rstrip("/")

    @property
    def slots(self) -> int:
        return self.instance.slots if isinstance(self.instance, Decoder) else 0

    @property
    def decoder(self) -> Decoder:
        assert isinstance(self.instance, Decoder)
        return self.instance

    @property
    def healthy(self) -> bool:
        return self.up and asyncio.get_running_loop().time() >= self.out_until

    @property
    def available(self) -> bool:
        """In rotation: it may get a new request."""
        return self.healthy and not self.drained and not self.left

    @property
    def promising(self) -> bool:
        """It takes requests, or may soon: when it was looked at, or when who drained it is done."""
        return self.available or ((self.drained or not self.looked_at) and not self.left)

    @property
    def idle(self) -> bool:
        return not self.in_flight and not self.held

    @property
    def idle_s(self) -> float | None:
        """How long nobody has needed the instance, at whichever address; None while somebody does."""
        return None if self.needs.count else time.monotonic() - self.needs.ended

    def use(self) -> Use:
        return Use(self, leg=True)

    def hold(self) -> Use:
        return Use(self, leg=False)

    @contextmanager
    def busy(self) -> Iterator[None]:
        use = self.use()
        try:
            yield
        finally:
            use.end()

    def count(self, leg: bool, step: int) -> None:
        if leg:
            self.in_flight += step
        else:
            self.held += step
        self.needs.add(step)
