"""Plan x earlier starts -> how long each step probably takes, and what nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pdctl.knowledge.durations import (
    ANY_PACKAGE_S,
    PACKAGE_S,
    PLAY_S,
    PROXY_START_S,
    REBOOT_S,
    SIMULATOR_START_S,
    STOP_S,
    VENV_S,
    VENV_UNKNOWN,
)
from pdctl.plan.model import Plan, Step, StepKind
from pdctl.state import Key, Package, Resource, State, Unit, Venv, Weights
from pdctl.topology.leases import lease_s
from pdctl.topology.model import Role, Topology

FIRST_START = "an engine's first start"


@dataclass(frozen=True)
class Estimate:
    """`seconds` of what is known, `at_most` with the bounds of the rest; `unknown` is what has neither."""

    seconds: float = 0.0
    at_most: float = 0.0
    unknown: tuple[str, ...] = ()

    def __add__(self, other: Estimate) -> Estimate:
        unknown = tuple(dict.fromkeys([*self.unknown, *other.unknown]))
        return Estimate(self.seconds + other.seconds, self.at_most + other.at_most, unknown)

    @property
    def text(self) -> str:
        """`about 40 s`, `up to 30 min`, or either and what is not counted in."""
        sure = self.at_most <= self.seconds * 1.05
        words = f"about {duration(self.seconds)}" if sure else f"up to {duration(self.at_most)}"
        return words + (f" and {' and '.join(self.unknown)}" if self.unknown else "")


@dataclass(frozen=True)
class Estimates:
    steps: Mapping[str, Estimate]
    starts: Mapping[Key, Estimate]
    total: Estimate


def estimate(topology: Topology, plan: Plan, desired: State, timings: Mapping[Key, float]) -> Estimates:
    """Units of a step start together, and hosts work side by side: the slowest of them counts.

    `timings` are the seconds that the last start of a unit took.
    """
    units = {key: row for key, row in desired.items() if isinstance(row, Unit)}
    starts = {key: _start(topology, unit, timings.get(key)) for key, unit in units.items()}
    begins = {change.key for change in plan.changes if not _runs(change.observed)}
    begins |= {Key(restart.host, f"unit:{restart.unit}") for restart in plan.restarts}
    begins |= {drift.key for drift in plan.drift if drift.unproven}
    steps = {}
    for step in plan.steps:
        waits = {key: starts[key] for key in step.keys if key in starts and key in begins}
        steps[step.name] = _step(topology, step, desired, waits, timings)
    total = Estimate()
    for each in steps.values():
        total += each
    return Estimates(steps, starts, total)


def duration(seconds: float) -> str:
    """`8 s`, `40 s`, `5 min`, `1 h 30 min`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h" + (f" {rest} min" if rest else "")


def _back(host: str, timings: Mapping[Key, float]) -> Estimate:
    """A host remembers how long its last reboot took."""
    return _fixed(timings.get(Key(host, "unit:reboot"), REBOOT_S))


def _step(
    topology: Topology,
    step: Step,
    desired: State,
    starts: Mapping[Key, Estimate],
    timings: Mapping[Key, float],
) -> Estimate:
    play = _fixed(PLAY_S)
    if step.kind is StepKind.PUT:
        return play + _slowest(_sums({key: _put(desired.get(key)) for key in step.keys}))
    if step.kind is StepKind.DRAIN:
        wait = lease_s(topology) if step.drain else 0.0
        return play + Estimate(wait, wait, ("the requests in flight",) if step.drain else ())
    if step.kind is StepKind.REBOOT:
        packages = {key: _put(desired.get(key)) for key in step.keys if key.id.startswith("package:")}
        back = [_back(host, timings) for host in step.hosts]
        return play + _fixed(STOP_S) + _slowest(_sums(packages)) + _slowest(back)
    if step.kind is StepKind.UNITS:
        return play + _slowest(starts.values())
    return play + _fixed(STOP_S if any(key.id.startswith("unit:") for key in step.keys) else 0.0)


def _runs(resource: Resource | None) -> bool:
    return isinstance(resource, Unit) and resource.active == "active"


def _start(topology: Topology, unit: Unit, measured: float | None) -> Estimate:
    if measured is not None:
        return _fixed(measured)
    if unit.role == Role.PROXY:
        return _fixed(PROXY_START_S)
    engine = topology.spec.engine
    if engine.kind == "simulator":
        return _fixed(SIMULATOR_START_S + engine.simulator.start_s)
    return Estimate(0.0, float(topology.spec.serving.load_timeout_s))


def _put(resource: Resource | None) -> Estimate:
    if isinstance(resource, Package):
        known = [seconds for name, seconds in PACKAGE_S.items() if resource.name.startswith(name)]
        return _fixed(known[0] if known else ANY_PACKAGE_S)
    if isinstance(resource, Weights):
        return Estimate() if resource.given else Estimate(unknown=(f"the download of {resource.repo}",))
    if isinstance(resource, Venv):
        name = resource.path.rsplit("/", 1)[1].rsplit("-", 1)[0]
        if name in VENV_UNKNOWN:
            return Estimate(unknown=(f"the download of {name}",))
        return _fixed(VENV_S.get(name, ANY_PACKAGE_S))
    return Estimate()


def _fixed(seconds: float) -> Estimate:
    return Estimate(seconds, seconds)


def _sums(parts: Mapping[Key, Estimate]) -> Iterator[Estimate]:
    """A host does one thing after the other."""
    by_host: dict[str, Estimate] = {}
    for key, part in parts.items():
        by_host[key.host] = by_host.get(key.host, Estimate()) + part
    yield from by_host.values()


def _slowest(parts: Iterable[Estimate]) -> Estimate:
    some = list(parts)
    unknown = tuple(dict.fromkeys(word for part in some for word in part.unknown))
    seconds = max((part.seconds for part in some), default=0.0)
    return Estimate(seconds, max((part.at_most for part in some), default=0.0), unknown)
