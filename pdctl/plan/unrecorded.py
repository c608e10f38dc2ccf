"""desired x observed x recorded -> drift that no record can tell: what is as wanted, and in no record."""

from __future__ import annotations

from collections.abc import Iterator, Set

from pdctl.desired.layout import UNITS, config_dir, unit_name
from pdctl.plan.model import Drift
from pdctl.state import Key, State, Unit, difference

UNRECORDED = "not in the record"


def unrecorded(desired: State, observed: State, recorded: State, pending: Set[Key]) -> Iterator[Drift]:
    """What nothing has to be done about but to record it: else destroy would leave it for ever, and take
    what another cluster put there and this one uses too."""
    for key, want in sorted(desired.items()):
        now = observed.get(key)
        if now is not None and key not in recorded and key not in pending and not difference(want, now):
            yield Drift(key, None, now, (UNRECORDED,))


def lost_hosts(
    cluster: str, desired: State, observed: State, recorded: State, pending: Set[Key]
) -> frozenset[str]:
    """Hosts that hold what only pdctl can have put there for this cluster, and have no record of it."""
    known = recorded.keys() | pending
    return frozenset(
        key.host
        for key in desired.keys() & observed.keys()
        if key not in known and (isinstance(desired[key], Unit) or _is_own_file(cluster, key))
    )


def _is_own_file(cluster: str, key: Key) -> bool:
    unit = unit_name(cluster, "").removesuffix(".service")
    return key.id.startswith((f"file:{config_dir(cluster)}/", f"file:{UNITS}/{unit}"))
