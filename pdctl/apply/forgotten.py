"""What hosts kept of a generation x its own spec -> an error where a host forgot what it held then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container

from pdctl.apply.history import cannot_be_brought_back
from pdctl.errors import ApplyError
from pdctl.state import State, Unit
from pdctl.topology.model import Role, Topology


def refuse_forgotten(then: Topology, held: State, unknown: Container[str], number: int) -> None:
    """A host that was reinstalled, or destroyed and added again, keeps nothing of before: that is no wish to
    empty it. Hosts in `unknown` could not be asked, and nothing is planned there. Raises ErrorGroup."""
    known = {(key.host, unit.instance) for key, unit in held.items() if isinstance(unit, Unit)}
    placed = [(each.host, each.name) for each in then.instances]
    lost = defaultdict[str, list[str]](list)
    for host, name in [*placed, (then.proxy.host, Role.PROXY.value)]:
        if host not in unknown and (host, name) not in known:
            lost[host].append(name)
    if lost:
        raise cannot_be_brought_back(number, [_forgot(host, names, number) for host, names in lost.items()])


def _forgot(host: str, names: list[str], number: int) -> ApplyError:
    return ApplyError(
        f"generation {number} had {', '.join(names)} here, but this host keeps nothing of that: it was"
        " reinstalled, destroyed or cleared since then",
        where=host,
    )
