"""What hosts say they run, against the spec: a runtime made for another system's Python would not start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pdctl.errors import HostError
from pdctl.hosts.observation import Facts, Observation
from pdctl.knowledge.systems import SYSTEM_PYTHON, system_name
from pdctl.state import State
from pdctl.topology.model import Topology


def without_other_systems(topology: Topology, desired: State, seen: Observation) -> Observation:
    """The same, with each host that runs another system among the failures and nowhere else.

    A host that shall hold nothing may run anything: destroy works there too.
    """
    needed = {key.host for key in desired}
    errors = {
        host: error
        for host, facts in seen.facts.items()
        if host in needed and (error := other_system(topology, host, facts))
    }
    return without(seen, errors) if errors else seen


def without(seen: Observation, errors: Mapping[str, HostError]) -> Observation:
    """The same, with the hosts of `errors` among the failures and nowhere else."""
    return replace(
        seen,
        state={key: value for key, value in seen.state.items() if key.host not in errors},
        recorded={key: value for key, value in seen.recorded.items() if key.host not in errors},
        contents={key: value for key, value in seen.contents.items() if key.host not in errors},
        records=_others(seen.records, errors),
        facts=_others(seen.facts, errors),
        bundle=_others(seen.bundle, errors),
        notices=_others(seen.notices, errors),
        strays=_others(seen.strays, errors),
        kept=_others(seen.kept, errors),
        foreign=_others(seen.foreign, errors),
        failures={**seen.failures, **errors},
    )


def other_system(topology: Topology, host: str, facts: Facts) -> HostError | None:
    wanted, found = topology.hosts[host].os, system_name(facts.os_id, facts.os_version)
    if found == wanted:
        return None
    written = any(each.name == host and each.os for each in topology.spec.hosts)
    runs = f"{facts.os_id} {facts.os_version}".strip() or "a system that does not say its name"
    known = found in SYSTEM_PYTHON
    return HostError(
        f"runs {runs}, the spec says {wanted}{'' if written else ' (the default of `os`)'}",
        where=host,
        hint=f"set `os: {found}`" if known else f"hosts can run {', '.join(SYSTEM_PYTHON)}",
    )


def _others(by_host: Mapping[str, Any], errors: Mapping[str, HostError]) -> dict[str, Any]:
    return {host: value for host, value in by_host.items() if host not in errors}
