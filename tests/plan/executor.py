"""Steps of a plan, carried out on a pretended cluster that looks at every moment for what must never be.

The proxy is as docs/proxy.md has it, prefillers as LMCache: they keep the addresses of each decoder they were
ever paired with. Whatever could be paired is paired at once, which is the worst case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from pdctl.plan import Plan, Step, StepKind
from pdctl.plan.belonging import instance_of_key
from pdctl.state import File, Key


@dataclass
class Engine:
    """`life` grows with each start; `known_at` is the address at which the proxy looks for it."""

    role: str
    up: bool = True
    new: bool = False  # runs as the spec wants it
    address: str = "here"
    known_at: str = "here"  # empty: not on the proxy's list
    life: int = 1
    restarts: int = 0
    wanted: bool = True
    asked: bool = True  # False: it is drained until a health gate lets it through


@dataclass
class Cluster:
    """`after`: where the proxy looks for each instance once it has read its new list. `mixed`: engines of
    before and after may serve together."""

    engines: dict[str, Engine]
    after: dict[str, str]
    remembering: bool
    mixed: bool = True
    limits: dict[str, int] = field(default_factory=dict)
    proxy_up: bool = True
    drained: set[str] = field(default_factory=set)
    sides: set[str] = field(default_factory=set)
    met: dict[tuple[str, str], int] = field(default_factory=dict)
    outages: list[Step] = field(default_factory=list)
    own: Mapping[str, set[Key]] = field(default_factory=dict)  # files that change, of one instance alone
    unseen: frozenset[str] = frozenset()  # on hosts that were left out
    lying: Set[Key] = frozenset()  # things that lie on the hosts as they shall be
    places: Mapping[str, str] = field(default_factory=dict)  # where engines are, for hosts that reboot
    front: str = ""  # the proxy's host
    back: bool = False  # it has been rebooted
    rebooted: tuple[str, ...] = ()

    def available(self, role: str) -> list[str]:
        return [
            name
            for name, e in self.engines.items()
            if e.role == role and e.up and e.known_at == e.address and name not in self.drained
        ]

    def pairs(self) -> list[tuple[str, str]]:
        return [
            (p, d)
            for p in self.available("prefiller")
            for d in self.available("decoder")
            if (p in self.sides) == (d in self.sides)
        ]

    def look(self, doing: str) -> None:
        """At this very moment no wrong pair can be made; all others are. And what crashes comes back as it
        was."""
        for name, engine in self.engines.items():
            early = self.own.get(name, set()) & self.lying if engine.up and not engine.new else ()
            assert not early, (
                f"{doing}: a crash of {name} would bring up what it is only about to be: {early}"
            )
        for p, d in self.pairs() if self.proxy_up else ():
            one, two = self.engines[p], self.engines[d]
            if self.remembering and p not in self.unseen:  # nobody can restart that one now
                known = self.met.setdefault((p, d), two.life)
                assert known == two.life, f"{doing}: {p} would use addresses of a former life of {d}"
            assert self.mixed or one.new == two.new, f"{doing}: {p} and {d} are of different versions"

    def run(self, plan: Plan) -> None:
        for name in {r.instance for r in plan.restarts} & self.engines.keys():
            # Nothing asks it before it restarts: it is taken for one that serves, and the host looks again.
            self.engines[name].up |= not self.engines[name].asked
        served = bool(self.pairs()) and self.proxy_up
        self.own = _own(plan)
        announced = False  # an outage that lasts until the first wave is back
        for step in plan.steps:
            self.look(f"before {step.title}")
            if step.kind is StepKind.PUT:
                self.lying |= set(step.keys)
            elif step.kind is StepKind.DRAIN:
                self._tell(step)
            elif step.kind in (StepKind.STOP, StepKind.DELETE):
                self._away(step, self._names(plan, step), for_good=step.kind is StepKind.DELETE)
            elif step.kind is StepKind.REBOOT:
                self._reboot(step, self._names(plan, step))
            elif step.kind is StepKind.UNITS:
                self._units(plan, step, self._names(plan, step))
            begins = step.name == "apart" and bool(step.outage)
            announced = (announced or begins) and step.name != "restart_1"
            if step.outage and not self._doubtful(step):
                self.outages.append(step)
            elif not announced:
                assert self.pairs() or not served, f"after {step.title} nothing is served"
            served = bool(self.pairs()) and self.proxy_up

    def _reboot(self, step: Step, names: list[str]) -> None:
        """A proxy on one of the hosts is back at once, with nobody drained or apart; engines are not."""
        self._away(step, [name for name in names if name != "proxy"])
        on = {name for name, host in self.places.items() if host in step.hosts}
        assert not {name for name in on if self.engines[name].up}, (
            f"{step.title}: engines run while it reboots"
        )
        self.rebooted += step.hosts
        if self.front in step.hosts:
            assert step.outage, "the proxy's host reboots unannounced"
            self.drained, self.sides, self.back = set(), set(), True
            self.look(step.title)

    def _tell(self, step: Step) -> None:
        assert self.proxy_up
        if step.reload:
            self._reload()  # sides follow within milliseconds: they can only name whom the proxy knows
        if step.sides is not None:
            self.sides = set(step.sides) & {name for name, e in self.engines.items() if e.known_at}
            self.look(step.title)
        self.drained -= set(step.undrain)
        unreachable = [n for n in step.undrain if (e := self.engines[n]).known_at and not self._reached(e)]
        assert not unreachable, f"{step.title}: {unreachable} cannot be reached"
        self.look(step.title)
        self.drained |= {name for name in step.drain if self.engines[name].known_at}
        self.look(step.title)
        for role, limit in self.limits.items():
            away = [n for n in self.drained if self.engines[n].role == role and self.engines[n].wanted]
            assert len(away) <= limit, f"{step.title}: {away} are away at once"

    def _reached(self, engine: Engine) -> bool:
        return engine.up and engine.known_at == engine.address

    def _units(self, plan: Plan, step: Step, names: list[str]) -> None:
        proxy = "proxy" in names
        names = [name for name in names if name != "proxy"]
        restarted = {r.instance for r in plan.restarts}
        busy = [n for n in names if n in restarted and self.engines[n].up]
        self._away(step, busy)
        self.lying |= set(step.keys)
        for name in names:
            if not self.engines[name].asked and name not in restarted:
                self.engines[name].asked = self.engines[name].up = True
                self.look(step.title)
            if not self.engines[name].up:
                self._start(name)
                self.look(step.title)
        if proxy:
            self._proxy(step, "proxy" in restarted)

    def _away(self, step: Step, names: Iterable[str], *, for_good: bool = False) -> None:
        """They end now: whoever has requests then loses them."""
        running = [name for name in names if name in self.engines and self.engines[name].up]
        used = {name for pair in self.pairs() for name in pair} if self.proxy_up else set()
        lost = [name for name in running if name in used]
        sure = step.outage and not self._doubtful(step)
        assert not lost or sure, f"{step.title}: {lost} serve and are ended"
        for name in running:
            self.engines[name].up = False
        assert sure or self.pairs() or not used, f"{step.title}: nothing is served"
        if for_good:
            for name in running:
                assert not self.engines[name].wanted

    def _doubtful(self, step: Step) -> bool:
        """Whether all that is said of an outage depends on engines that do serve, unseen."""
        named = [name for name in self.unseen if f"{name} " in step.outage or f"{name}," in step.outage]
        return bool(named) and "no other" not in step.outage and all(self._serves(name) for name in named)

    def _serves(self, name: str) -> bool:
        return name in self.available(self.engines[name].role)

    def _start(self, name: str) -> None:
        engine = self.engines[name]
        assert self.own.get(name, set()) <= self.lying, f"{name} is started from files that lack"
        engine.restarts += 1
        engine.life += 1
        engine.up, engine.new = True, True
        engine.address = self.after.get(name, engine.address)
        if engine.role == "prefiller":
            self.met = {pair: life for pair, life in self.met.items() if pair[0] != name}

    def _proxy(self, step: Step, restarts: bool) -> None:
        assert not (restarts and self.proxy_up) or step.outage or self.back, "the proxy restarts unannounced"
        self.proxy_up = True
        self._reload()
        self.sides, self.drained = set(), set()
        self.look(step.title)

    def _reload(self) -> None:
        for name, engine in self.engines.items():
            engine.known_at = self.after.get(name, "")
        self.sides &= set(self.after)
        self.drained &= set(self.after)

    def _names(self, plan: Plan, step: Step) -> list[str]:
        prefix = f"unit:pdctl-{plan.cluster}-"
        return [
            k.id.removeprefix(prefix).removesuffix(".service") for k in step.keys if k.id.startswith(prefix)
        ]


def _own(plan: Plan) -> dict[str, set[Key]]:
    found: dict[str, set[Key]] = {}
    for change in plan.changes:
        if isinstance(change.desired, File):
            found.setdefault(instance_of_key(plan.cluster, change.key), set()).add(change.key)
    return found
