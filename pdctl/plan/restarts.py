"""Which running processes a plan restarts, and because of what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pdctl.desired.layout import UNITS
from pdctl.knowledge import versions
from pdctl.knowledge.versions import at_least
from pdctl.plan.drift import RELOAD, restarted_outside
from pdctl.plan.model import Change, Reboots, Restart
from pdctl.state import Key, Resource, State, Unit
from pdctl.topology.model import Role, Topology

PEERS_NAMED = (
    8  # each prefiller names this many decoders as its causes: with 2,000 of both it would be millions
)


def restarts(
    topology: Topology,
    desired: State,
    observed: State,
    recorded: State,
    changes: Sequence[Change],
    due: Mapping[Key, tuple[str, ...]],
    reboots: Reboots | None = None,
) -> list[Restart]:
    """Restarts in key order: stale processes, those on hosts that reboot, prefillers whose decoder restarts
    or restarted, and those that are still `due`. None where no engine can be started."""
    told = reboots or Reboots()
    own = dict(_stale(desired, observed, recorded, changes))
    own |= {
        key: (*own.get(key, ()), f"{key.host} reboots")
        for key, _ in _units(desired)
        if key.host in told.hosts and _is_active(observed.get(key))
    }
    peers = _lost_decoders(topology, desired, observed, recorded, own)
    found = []
    for key, unit in _units(desired):
        now = observed.get(key)
        running = _is_active(now)
        if key.host in told.resting and unit.role != Role.PROXY:
            continue
        causes = own.get(key, ()) or (peers if unit.role == Role.PREFILLER and running else ())
        causes = causes or due.get(key, ())
        if causes:
            found.append(
                Restart(key.host, unit.name, unit.instance, causes, _looks_right(unit, now, key, told))
            )
    return found


def _is_active(now: Resource | None) -> bool:
    return isinstance(now, Unit) and now.active == "active"


def stale_peers(topology: Topology) -> bool:
    """Whether prefillers keep a decoder's old addresses for ever, so that they must restart after it.

    The engine simulator does so only when it is told to.
    """
    spec = topology.spec
    if spec.serving.mode != "disaggregated" or spec.serving.connector != "lmcache":
        return False
    if spec.engine.kind == "simulator":
        return spec.engine.simulator.stale_peers
    return at_least(versions.STALE_PEERS_UNTIL, topology.pins["lmcache"])


def is_silent(unit: Unit, now: Unit) -> bool:
    """A running proxy that can neither be told to reload nor to drain."""
    return bool(unit.loaded) and not now.loaded


def unit_file(key: Key, unit: Unit) -> Key:
    return Key(key.host, f"file:{UNITS}/{unit.name}")


def _units(state: State) -> Iterator[tuple[Key, Unit]]:
    for key, resource in sorted(state.items()):
        if isinstance(resource, Unit):
            yield key, resource


def _looks_right(unit: Unit, now: Resource | None, key: Key, told: Reboots) -> bool:
    """One that goes down with its host needs no note: only that the host is rebooted."""
    if not isinstance(now, Unit) or is_silent(unit, now) or key.host in told.hosts:
        return False
    return now.revision == unit.revision and not set(now.deviations) - {RELOAD}


def _stale(
    desired: State, observed: State, recorded: State, changes: Sequence[Change]
) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Running units whose process is not the one that the desired files would start."""
    changed = {change.key: change for change in changes}
    for key, unit in _units(desired):
        now = observed.get(key)
        if isinstance(now, Unit) and now.active == "masked" and now.revision:
            yield key, ("is masked",)
        if not isinstance(now, Unit) or now.active != "active":
            continue
        inputs = [changed[k] for k in (Key(key.host, i) for i in unit.inputs) if k in changed]
        if now.revision != unit.revision:
            named = tuple(f"{_label(change)}" for change in inputs)
            yield key, named or ("runs with an older configuration",)
        elif set(now.deviations) - {RELOAD}:
            yield key, now.deviations
        elif is_silent(unit, now):
            yield key, ("its control socket does not answer",)
        elif restarted_outside(recorded.get(key), now):
            read = [*inputs, *(changed[k] for k in (unit_file(key, unit),) if k in changed)]
            edited = tuple(f"was started with the edited {_label(c)}" for c in read if c.drift)
            if edited or now.deviations:
                yield key, edited or now.deviations


def _lost_decoders(
    topology: Topology,
    desired: State,
    observed: State,
    recorded: State,
    own: dict[Key, tuple[str, ...]],
) -> tuple[str, ...]:
    """Why prefillers hold stale peers: decoders that restart now, or were started since the last apply.

    Beyond `PEERS_NAMED` they are only counted.
    """
    if not stale_peers(topology):
        return ()
    causes = []
    for key, unit in _units(desired):
        if unit.role != Role.DECODER or key not in recorded:
            continue
        now = observed.get(key)
        running = isinstance(now, Unit) and now.active == "active"
        if key in own or not running:
            causes.append(f"its peer {unit.instance} restarts, and LMCache never renews a peer")
        elif restarted_outside(recorded[key], now):
            causes.append(f"its peer {unit.instance} was restarted, and LMCache never renews a peer")
    if len(causes) > PEERS_NAMED:
        more = f"{len(causes) - PEERS_NAMED} more of its peers restart or were restarted"
        causes = [*causes[:PEERS_NAMED], more]
    return tuple(causes)


def _label(change: Change) -> str:
    return change.key.id.split(":", 1)[1]
