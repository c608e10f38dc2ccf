"""The instances as the proxy sees them: who is in rotation, who is least loaded, who holds a stale peer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .answers import unavailable
from .config import Config, Decoder, Server
from .metrics import Metrics, Sample

log = logging.getLogger("pdctl.proxy")


@dataclass(eq=False)
class Member:
    """One instance and what is known of it."""

    role: str
    instance: Server | Decoder
    up: bool = False  # its /health answers
    was_up: bool = False
    out_until: float = 0.0  # loop time until which failed requests keep it out of rotation
    failures: int = 0  # failed requests in a row
    in_flight: int = 0
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
    def available(self) -> bool:
        return self.up and asyncio.get_running_loop().time() >= self.out_until

    @contextmanager
    def busy(self) -> Iterator[None]:
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1


class Fleet:
    def __init__(self, config: Config, metrics: Metrics) -> None:
        self._config = config
        self._metrics = metrics
        self._turns: dict[str, int] = {}
        self.members = [
            *(Member("prefiller", item) for item in config.prefillers),
            *(Member("decoder", item) for item in config.decoders),
            *(Member("server", item) for item in config.servers),
        ]
        # (prefiller, decoder) pairs where the prefiller caches a peer from before the decoder's restart.
        # LMCache 0.3.10 and 0.5.6 (nixl_channel.py) never drop it: its next write to that decoder fails.
        self.stale: set[tuple[str, str]] = set()
        self.changed: Callable[[], None] = lambda: None  # the admission queue listens here

    def of(self, role: str) -> list[Member]:
        return [member for member in self.members if member.role == role]

    def available(self, role: str, avoid: Collection[str] = ()) -> list[Member]:
        return [member for member in self.of(role) if member.available and member.name not in avoid]

    def pick(self, role: str, avoid: Collection[str] = (), decoder: str | None = None) -> Member:
        """The least loaded one; for a decoder's sake one without a stale peer; in turn among equals."""
        self.require(role, avoid)
        stale, candidates = self.stale, self.turned(self.available(role, avoid))
        return min(candidates, key=lambda member: ((member.name, decoder) in stale, member.in_flight))

    def require(self, role: str, avoid: Collection[str] = ()) -> None:
        if not self.available(role, avoid):
            raise unavailable(f"no healthy {role}")

    def turned(self, candidates: list[Member]) -> list[Member]:
        """The same ones, beginning with another one each time, so that equals take turns."""
        if not candidates:
            return []
        role = candidates[0].role
        start = self._turns[role] = (self._turns.get(role, -1) + 1) % len(candidates)
        return candidates[start:] + candidates[:start]

    def ready(self) -> bool:
        roles = ("server",) if self._config.mode == "aggregated" else ("prefiller", "decoder")
        return all(self.available(role) for role in roles)

    def succeeded(self, member: Member) -> None:
        member.failures = 0

    def failed(self, member: Member, *, refused: bool = False) -> None:
        """Count a failed request; a refused connection is proof enough, other failures only in a row."""
        self._metrics.count("pdctl_proxy_instance_failures_total", instance=member.name)
        member.failures += 1
        if refused:
            self.down(member, "refuses connections")
        elif member.failures >= self._config.health.failures:
            member.failures = (
                self._config.health.failures - 1
            )  # after the cool-down one more failure is enough
            member.out_until = asyncio.get_running_loop().time() + self._config.health.cooldown_s
            log.warning("instance=%s out of rotation for %g s", member.name, self._config.health.cooldown_s)
            self.changed()

    def down(self, member: Member, why: str) -> None:
        if member.up:
            log.warning("instance=%s down: %s", member.name, why)
        member.up = False
        self.changed()

    def back(self, member: Member, started: float | None) -> None:
        """Its /health answers; decide whether this is still the process that was there before."""
        known = started is not None and member.started is not None
        restarted = started != member.started if known else member.was_up and not member.up
        if started is not None:
            member.started = started
        if not member.up:
            log.info("instance=%s up", member.name)
        member.up = member.was_up = True
        if restarted:
            self._restarted(member)
        self.changed()

    def transferred(self, prefiller: Member, decoder: Member) -> None:
        """The pair works: whatever peer the prefiller holds is a good one."""
        self.stale.discard((prefiller.name, decoder.name))
        self.succeeded(prefiller)

    def transfer_failed(self, prefiller: Member, decoder: Member) -> None:
        """The decoder is to blame too, unless the prefiller was known to hold a stale peer of it."""
        self.failed(prefiller)
        if (prefiller.name, decoder.name) in self.stale:
            self.stale.discard((prefiller.name, decoder.name))
        else:
            self.failed(decoder)

    def _restarted(self, member: Member) -> None:
        log.warning("instance=%s has restarted", member.name)
        if member.role == "prefiller":
            self.stale = {pair for pair in self.stale if pair[0] != member.name}
        if member.role == "decoder":
            self._metrics.count("pdctl_proxy_decoder_restarts_total", decoder=member.name)
            if self._config.lmcache:
                self.stale |= {(prefiller.name, member.name) for prefiller in self.of("prefiller")}

    def gauges(self) -> Iterator[Sample]:
        for member in self.members:
            labels = (("instance", member.name), ("role", member.role))
            yield ("pdctl_proxy_instance_up", labels, float(member.available))
            yield ("pdctl_proxy_instance_in_flight", labels, member.in_flight)
        for prefiller, decoder in sorted(self.stale):
            yield ("pdctl_proxy_stale_peers", (("prefiller", prefiller), ("decoder", decoder)), 1)
