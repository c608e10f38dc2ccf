"""Which running units stop before others start on their host, because those need what they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pdctl.plan.model import Change, Restart
from pdctl.plan.restarts import unit_file
from pdctl.state import File, Key, Resource, State, Unit
from pdctl.topology.model import START_ORDER, Role

PORT = re.compile(r"(?<![\w.])\d{4,5}(?![\w.])")  # 1024 to 65535, as they stand in units and configuration
ROLES = [role.value for role in START_ORDER]


def in_the_way(
    gone: Sequence[Change],
    changes: Sequence[Change],
    restarts: Sequence[Restart],
    wanted: State,
    rebooting: Sequence[str] = (),
) -> tuple[Key, ...]:
    """Units that left the spec: their ports and GPUs may be those of an engine that starts or restarts, or
    their host reboots.

    A proxy that restarts to forget them is no reason: until then it sends requests to them. And a proxy that
    goes to another host serves until that one does, unless its port is needed: it has no GPU.
    """
    coming = set(_starting(changes))
    coming |= {key for key in _restarting(restarts) if _unit(wanted, key).role != Role.PROXY}
    hosts = {*rebooting, *(key.host for key in coming)}
    return tuple(
        c.key
        for c in gone
        if isinstance(c.observed, Unit)
        and c.key.host in hosts
        and (not c.key.id.endswith("-proxy.service") or _holds(c.key.host, c.observed, coming, wanted))
    )


def halted(
    changes: Sequence[Change],
    restarts: Sequence[Restart],
    wanted: State,
    observed: State,
    *,
    ordered: bool,
) -> tuple[Key, ...]:
    """Units that may restart later than, or together with, one that will have a port which they hold now.

    `ordered`: role after role; else only the proxy is known to be the last.
    """
    coming = sorted({*_starting(changes), *_restarting(restarts)})
    changed = {change.key: change for change in changes}
    stopping = set(_starting(changes))
    mates: dict[str, list[Key]] = {}  # ports are a host's own: with 4,000 units only few can be in the way
    for key in coming:
        mates.setdefault(key.host, []).append(key)
    freed = {key: _given_up(key, _unit(wanted, key), changed, wanted, observed) for key in coming}
    return tuple(
        key
        for key in coming
        if key not in stopping
        and any(
            _gets(other, key, wanted, freed[key], ordered=ordered)
            for other in mates[key.host]
            if other != key
        )
    )


def _holds(host: str, now: Unit, coming: Iterable[Key], wanted: State) -> bool:
    """Whether one that comes on this host has a port that this process listens on."""
    mine = {str(port) for port in now.ports}
    return any(mine & _ports(key, _unit(wanted, key), wanted) for key in coming if key.host == host)


def _starting(changes: Iterable[Change]) -> Iterator[Key]:
    for change in changes:
        running = isinstance(change.observed, Unit) and change.observed.active in ("active", "masked")
        if isinstance(change.desired, Unit) and not running:
            yield change.key


def _restarting(restarts: Iterable[Restart]) -> Iterator[Key]:
    return (Key(restart.host, f"unit:{restart.unit}") for restart in restarts)


def _gets(first: Key, holder: Key, wanted: State, freed: set[str], *, ordered: bool) -> bool:
    """Whether `first` needs a port of those, `freed`, that `holder` gives up by its own restart."""
    one, two = _unit(wanted, first), _unit(wanted, holder)
    later = ROLES.index(one.role) > ROLES.index(two.role)
    if later and (ordered or one.role == Role.PROXY):
        return False
    return bool(freed and freed & _ports(first, one, wanted))


def _given_up(
    key: Key, unit: Unit, changed: Mapping[Key, Change], wanted: State, observed: State
) -> set[str]:
    """Ports that its process listens on, or, where it does not say, that stood in its files."""
    now = observed.get(key)
    before = {str(port) for port in now.ports} if isinstance(now, Unit) else set()
    if not before:
        lines = (line for k in _files(key, unit) if k in changed for line in changed[k].text)
        before = {port for line in lines if line.startswith("-") for port in PORT.findall(line)}
    return before and before - _ports(key, unit, wanted)


def _ports(key: Key, unit: Unit, wanted: State) -> set[str]:
    """All numbers in its files that may be ports: one too many only stops a unit a little earlier."""
    texts = [_text(wanted.get(k)) for k in _files(key, unit)]
    return {port for text in texts for port in PORT.findall(text)}


def _text(resource: Resource | None) -> str:
    content = resource.content if isinstance(resource, File) else None
    return (content or b"").decode("utf-8", "replace")


def _files(key: Key, unit: Unit) -> list[Key]:
    return [unit_file(key, unit), *(Key(key.host, name) for name in unit.inputs)]


def _unit(state: State, key: Key) -> Unit:
    unit = state[key]
    assert isinstance(unit, Unit)
    return unit
