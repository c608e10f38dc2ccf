"""A runtime and the services that start from it -> the runtime with what must be imported from it first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pdctl.desired.engine import environment
from pdctl.desired.layout import SERVICE_USER, cache_dir
from pdctl.knowledge.compatibility import VLLM as RELEASES
from pdctl.knowledge.pairs import row_of
from pdctl.knowledge.proofs import (
    ALARMS,
    ALARMS_CPU,
    ENGINE_PACKAGES,
    LMCACHE_CPU,
    LMCACHE_CUDA,
    LOADING,
    NIXL,
    OWN,
    VLLM_CPU,
    VLLM_CUDA,
    Part,
)
from pdctl.knowledge.releases import torch_cuda
from pdctl.state import Venv
from pdctl.state.digest import object_digest
from pdctl.topology.model import Instance, Topology

PAIR = "Pin versions that are built for each other: `pdctl validate` knows which are"


def proven_engine(topology: Topology, venv: Venv, instances: Iterable[Instance]) -> Venv:
    """One trial for each set of variables that could change what is loaded."""
    parts = _parts(topology)
    trials: dict[str, tuple[str, Mapping[str, str]]] = {}
    for instance in instances:
        variables = environment(topology, instance)
        bearing = {name: value for name, value in variables.items() if name.startswith(LOADING)}
        trials.setdefault(object_digest(bearing), (instance.name, variables))
    common = _common(venv, parts) | {
        "cuda": _cuda(topology) if parts[0] == VLLM_CUDA[0] else "",
        "agent": NIXL[0] in parts,
        "alarms": [*ALARMS, *(ALARMS_CPU if topology.spec.engine.device == "cpu" else ())],
        "mend": PAIR,
    }
    return _with(venv, common, trials)


def proven_proxy(topology: Topology, venv: Venv) -> Venv:
    variables = {"HOME": cache_dir(topology.cluster, "proxy")}
    return _with(venv, _common(venv, _own("proxy")), {"": ("proxy", variables)})


def _with(venv: Venv, common: dict[str, Any], trials: Mapping[str, tuple[str, Mapping[str, str]]]) -> Venv:
    """The digest stands for what is tried, not for whose variables it is tried with."""
    proofs = tuple(
        json.dumps(common | {"name": name, "environment": sorted(variables.items())}, sort_keys=True)
        for name, variables in trials.values()
    )
    return replace(venv, proof=object_digest([common, sorted(trials)]), proofs=proofs)


def _common(venv: Venv, parts: tuple[Part, ...]) -> dict[str, Any]:
    pins = dict(line.split()[0].split("==", 1) for line in venv.requirements if "==" in line)
    names = [*ENGINE_PACKAGES, *(module.replace("_", "-") for module in OWN.values())]
    return {
        "user": SERVICE_USER,
        "imports": [list(part.modules) for part in parts],
        "native": [list(part.modules) for part in parts if part.native],
        "versions": {name: pins[name] for name in names if name in pins},
        "cuda": "",
        "ucx": "",
        "agent": False,
        "alarms": [],
        "mend": "Collect the bundle again, and say so if it stays",
    }


def _parts(topology: Topology) -> tuple[Part, ...]:
    spec = topology.spec
    if spec.engine.kind == "simulator":
        return _own("simulator")
    found: tuple[Part, ...] = VLLM_CPU if spec.engine.device == "cpu" else VLLM_CUDA
    if spec.serving.mode == "disaggregated":
        if spec.serving.connector == "lmcache":
            found += LMCACHE_CPU if spec.engine.device == "cpu" else LMCACHE_CUDA
        found += NIXL
    return found


def _own(name: str) -> tuple[Part, ...]:
    return (Part((OWN[name],)),)


def _cuda(topology: Topology) -> str:
    """The major version of CUDA that torch must be built for; empty where nobody knows."""
    if topology.spec.engine.device == "cpu":
        return "none"
    row = row_of(RELEASES, topology.pins["vllm"])
    built = torch_cuda(topology.pins.get("torch", "")) or (row.cuda if row else "")
    return built.split(".")[0]
