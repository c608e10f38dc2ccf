"""Spec -> every pin of the stack, and where each comes from."""

from __future__ import annotations

from typing import NamedTuple

from pdctl.knowledge.compatibility import VLLM
from pdctl.knowledge.pairs import row_of
from pdctl.knowledge.stacks import STACKS
from pdctl.knowledge.versions import DEFAULT_PINS
from pdctl.spec.model import Cluster


class Pinned(NamedTuple):
    """`own`: the spec itself names the version. `origin` says it in words, for errors."""

    version: str
    own: bool
    origin: str


def pinned(cluster: Cluster) -> dict[str, Pinned]:
    """Single pins over the named set; without a set over the engine's defaults, as they follow vLLM."""
    own = {name: Pinned(version, True, "pinned here") for name, version in _own(cluster).items()}
    base = cluster.stack.base
    named = {
        name: Pinned(version, False, f"of `{base}`") for name, version in STACKS.get(base or "", {}).items()
    }
    defaults = {
        name: Pinned(version, False, "pdctl's default")
        for name, version in DEFAULT_PINS[(cluster.engine.kind, cluster.engine.device)].items()
    }
    if not named and "vllm" in own and _is_for_gpus(cluster):
        del defaults["torch"]  # it is vLLM's choice, also where pdctl does not know it
        defaults |= _following(own["vllm"].version)
    return {**defaults, **named, **own}


def _own(cluster: Cluster) -> dict[str, str]:
    return cluster.stack.model_dump(exclude_none=True, exclude={"base"})


def _is_for_gpus(cluster: Cluster) -> bool:
    """The CPU engine's wheels are locked, and the simulator plays any version."""
    return cluster.engine.kind == "vllm" and cluster.engine.device == "cuda"


def _following(vllm: str) -> dict[str, Pinned]:
    """What is left out is taken to fit the vLLM that is asked for."""
    row = row_of(VLLM, vllm)
    fitting = {"torch": row.torch, "nixl": row.nixl, "lmcache": row.lmcache} if row else {}
    return {
        name: Pinned(version, False, f"chosen for vllm {vllm}")
        for name, version in fitting.items()
        if version
    }
