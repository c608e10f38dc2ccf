"""Topology -> what only `doctor` asks each host, since it takes longer: links of GPUs, names to look up."""

from __future__ import annotations

from typing import Any

from pdctl.desired.engine import downloads, environment
from pdctl.desired.layout import SERVICE_USER
from pdctl.desired.runtime import engine_runtime
from pdctl.knowledge.variables import ELSEWHERE_FROM_HUB, HUB, LIBRARY_PATHS
from pdctl.topology.affinity import environment_of
from pdctl.topology.model import Topology
from pdctl.topology.placement import uses_gpus


def questions(topology: Topology) -> dict[str, dict[str, Any]]:
    """By host. JSON-like."""
    return {
        host: {
            "gpus": uses_gpus(topology.spec) and has_engines(topology, host),
            "names": names(topology, host),
            "ucx": transports(topology, host),
        }
        for host in topology.hosts
    }


def transports(topology: Topology, host: str) -> dict[str, Any]:
    """Whose UCX carries KV of GPUs, as whom and with which variables it runs; the loader's count as well."""
    if not uses_gpus(topology.spec) or topology.spec.serving.mode != "disaggregated":
        return {}
    python = f"{engine_runtime(topology, host).path}/bin/python"
    return {
        each.name: {"python": python, "user": SERVICE_USER, "env": _of_ucx(environment(topology, each))}
        for each in topology.instances
        if each.host == host
    }


def _of_ucx(variables: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(("UCX_", "CUDA_")) or name in (*LIBRARY_PATHS, "PATH")
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
