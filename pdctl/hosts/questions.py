"""Topology -> what only `doctor` asks each host, since it takes longer: links of GPUs, names to look up."""

from __future__ import annotations

from typing import Any

from pdctl.desired.engine import downloads
from pdctl.knowledge.variables import ELSEWHERE_FROM_HUB, HUB
from pdctl.topology.affinity import environment_of
from pdctl.topology.model import Topology
from pdctl.topology.placement import uses_gpus


def questions(topology: Topology) -> dict[str, dict[str, Any]]:
    """By host. JSON-like."""
    return {
        host: {
            "gpus": uses_gpus(topology.spec) and has_engines(topology, host),
            "names": names(topology, host),
        }
        for host in topology.hosts
    }


def names(topology: Topology, host: str) -> list[str]:
    """The hub's, where engines of this host download their weights; peers have addresses in the spec."""
    return [HUB] if _asks_hub(topology, host) else []


def has_engines(topology: Topology, host: str) -> bool:
    return any(each.host == host for each in topology.instances)


def _asks_hub(topology: Topology, host: str) -> bool:
    mine = [each for each in topology.instances if each.host == host]
    elsewhere = any(
        name in environment_of(topology.spec, each) for each in mine for name in ELSEWHERE_FROM_HUB
    )
    return bool(mine) and downloads(topology) and not topology.spec.offline and not elsewhere
