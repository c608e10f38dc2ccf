"""The instances as the proxy sees them: who is in rotation, who is least loaded, who may serve with whom."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator

from .answers import RefusedError, unavailable
from .config import Config, Decoder, Server
from .member import Member, Needs
from .metrics import Metrics, Sample
from .peers import Peers

log = logging.getLogger("pdctl.proxy")


class Fleet:
    def __init__(self, config: Config, metrics: Metrics) -> None:
        self._config = config
        self._metrics = metrics
        self._turns: dict[tuple[str, bool], int] = {}
        self._needs: dict[str, Needs] = {}  # by name: an instance that moves or comes back is the same one
        self.members = [self._kept(None, role, item) for role, item in instances(config)]
        self.leaving: list[Member] = []  # out of the configuration, with requests to finish
        self.peers = Peers()
        # Names that are only paired with each other, so that no request crosses between instances from
        # before and from after a restart. Who leaves and comes back is on the side where it was.
        self.sides: frozenset[str] = frozenset()
        self.changed: Callable[[], None] = lambda: None  # the admission queue listens here

    @property
    def stale(self) -> set[tuple[str, str]]:
        return self.peers.stale

    def of(self, role: str) -> list[Member]:
        return [member for member in self.members if member.role == role]

    def available(self, role: str, avoid: Collection[str] = ()) -> list[Member]:
        return [member for member in self.of(role) if member.available and member.name not in avoid]

    def side(self, member: Member) -> bool:
        return member.name in self.sides

    def by_side(self, members: Iterable[Member]) -> dict[bool, list[Member]]:
        found: dict[bool, list[Member]] = {False: [], True: []}
        for member in members:
            found[self.side(member)].append(member)
        return found

    def best(
        self,
        role: str,
        avoid: Collection[str] = (),
        partner: Member | None = None,
        needing: str | None = None,
    ) -> Member | None:
        """The least loaded one: on the partner's side, or on one where the role `needing` has somebody."""
        others = [partner] if partner else self.available(needing) if needing else None
        sides = {False, True} if others is None else {self.side(other) for other in others}
        candidates = [member for member in self.available(role, avoid) if self.side(member) in sides]
        return self.least_loaded(candidates) if candidates else None

    def least_loaded(self, candidates: list[Member], decoder: str = "") -> Member:
        """For a decoder's sake a prefiller without a stale peer; in turn among equals."""
        stale = self.stale
        return min(
            self.turned(candidates),
            key=lambda member: ((member.name, decoder) in stale, member.in_flight),
        )

    def hopeless(self, roles: Collection[str], avoid: Collection[str] = ()) -> RefusedError | None:
        """Why it makes no sense to wait for these roles: nobody is healthy, drained or not looked at yet."""
        for role in roles:
            if not any(member.promising and member.name not in avoid for member in self.of(role)):
                return unavailable(f"no healthy {role}")
        return None

    def turned(self, candidates: list[Member]) -> list[Member]:
        """The same ones, beginning with another one each time, so that equals take turns."""
        # Each side takes its own turns: requests that alternate between sides would else meet the same one.
        whose = candidates[0].role, all(map(self.side, candidates))
        start = self._turns[whose] = (self._turns.get(whose, -1) + 1) % len(candidates)
        return candidates[start:] + candidates[:start]

    def ready(self) -> bool:
        roles = ("server",) if self._config.mode == "aggregated" else ("prefiller", "decoder")
        return all(self.available(role) for role in roles)

    def succeeded(self, member: Member) -> None:
        member.failures = 0

    def failed(self, member: Member, *, refused: bool = False) -> None:
        """Count a failed request; a refused connection is proof enough, other failures only in a row."""
        health = self._config.health
        self._metrics.count("pdctl_proxy_instance_failures_total", instance=member.name)
        member.failures += 1
        if refused:
            self.down(member, "refuses connections")
        elif member.failures >= health.failures:
            member.failures = health.failures - 1  # after the cool-down one more failure is enough
            member.out_until = asyncio.get_running_loop().time() + health.cooldown_s
            log.warning("instance=%s out of rotation for %g s", member.name, health.cooldown_s)
            self.changed()

    def down(self, member: Member, why: str) -> None:
        if member.up:
            log.warning("instance=%s down: %s", member.name, why)
            member.up = False
            self.changed()

    def looked_at(self, member: Member) -> None:
        if not member.looked_at:
            member.looked_at = True
            self.changed()

    def back(self, member: Member, started: float | None) -> None:
        """Its /health answers; decide whether this is still the process that was there before."""
        known = started is not None and member.started is not None
        restarted = started != member.started if known else member.was_up and not member.up
        if started is not None:
            member.started = started
        cooled = 0 < member.out_until <= asyncio.get_running_loop().time()
        news = not member.up or restarted or cooled
        if not member.up:
            log.info("instance=%s up", member.name)
        member.up = member.was_up = member.looked_at = True
        member.out_until = 0.0 if cooled else member.out_until
        if restarted and not member.left:
            self._restarted(member)
        if news:
            self.changed()

    def transferred(self, prefiller: Member, decoder: Member) -> None:
        """The pair works: whatever peer the prefiller holds is a good one."""
        self.peers.works(prefiller.name, decoder.name)
        self.succeeded(prefiller)

    def transfer_failed(self, prefiller: Member, decoder: Member) -> None:
        """The decoder is to blame too, unless the prefiller was known to hold a stale peer of it."""
        self.failed(prefiller)
        if (prefiller.name, decoder.name) in self.stale:
            self.peers.works(prefiller.name, decoder.name)
        else:
            self.failed(decoder)

    def _restarted(self, member: Member) -> None:
        log.warning("instance=%s has restarted", member.name)
        if member.drained:  # on purpose: what its earlier process did wrong is over
            member.failures, member.out_until = 0, 0.0
        if member.role == "prefiller":
            self.peers.prefiller_restarted(member.name)
        if member.role == "decoder":
            self._metrics.count("pdctl_proxy_decoder_restarts_total", decoder=member.name)
            if self._config.lmcache:
                self.peers.decoder_restarted(member.name, [each.name for each in self.of("prefiller")])

    def drain(self, members: Collection[Member]) -> None:
        for member in members:
            member.orders += 1
            if not member.drained:
                log.info("instance=%s drained: it gets no new requests", member.name)
            member.drained = True
        self.changed()

    def undrain(self, members: Collection[Member]) -> None:
        for member in members:
            member.orders += 1
            if member.drained:
                log.info("instance=%s undrained", member.name)
            member.drained = False
        self.changed()

    def divide(self, names: Collection[str]) -> None:
        """Pair these with each other only, and the others with the others; nobody ends it."""
        if self.sides != frozenset(names):
            log.info("kept apart from the others: %s", ", ".join(sorted(names)) or "nobody")
        self.sides = frozenset(names)
        self.changed()

    def adopt(self, config: Config) -> None:
        """Another list of instances: who stays keeps all that is known, who left finishes what it has."""
        before = {(member.role, member.name): member for member in self.members}
        self._config = config
        self.members = [
            self._kept(before.get((role, item.name)), role, item) for role, item in instances(config)
        ]
        gone = [member for member in before.values() if member not in self.members]
        new = [member for member in self.members if member not in before.values()]
        for member in gone:
            member.left = True
        self.leaving = [member for member in (*self.leaving, *gone) if not member.idle]
        self.peers.forget({member.name for member in (*gone, *new)})
        log.info("instances added: %s; removed: %s", listed(new), listed(gone))
        self.changed()

    def _kept(self, had: Member | None, role: str, item: Server | Decoder) -> Member:
        """The same member if it is still at the same place; who moved is another one, drained as it was."""
        if had and place(had.instance) == place(item):
            had.instance = item
            return had
        needs = self._needs.setdefault(item.name, Needs())
        return Member(role, item, drained=bool(had and had.drained), needs=needs)

    def gauges(self) -> Iterator[Sample]:
        for member in self.members:
            labels = (("instance", member.name), ("role", member.role))
            yield ("pdctl_proxy_instance_up", labels, float(member.available))
            yield ("pdctl_proxy_instance_drained", labels, float(member.drained))
            yield ("pdctl_proxy_instance_in_flight", labels, member.in_flight)
            yield ("pdctl_proxy_instance_held", labels, member.held)
        for prefiller, decoder in sorted(self.stale):
            yield ("pdctl_proxy_stale_peers", (("prefiller", prefiller), ("decoder", decoder)), 1)


def instances(config: Config) -> Iterator[tuple[str, Server | Decoder]]:
    yield from (("prefiller", item) for item in config.prefillers)
    yield from (("decoder", item) for item in config.decoders)
    yield from (("server", item) for item in config.servers)


def place(item: Server | Decoder) -> tuple[object, ...]:
    ports = (item.host, item.init_ports, item.alloc_ports) if isinstance(item, Decoder) else ()
    return (item.url, *ports)


def listed(members: Collection[Member]) -> str:
    return ", ".join(member.name for member in members) or "none"
