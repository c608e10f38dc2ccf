"""Rules on what prefillers and decoders must agree on."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.knowledge.stacks import STACKS
from pdctl.knowledge.versions import DEFAULT_PINS, at_least
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster

# NixlConnector reads one decoder rank from several prefiller ranks too (vLLM PR 27274, in 0.33.0's
# compatibility page); in 0.11.0 a decoder's TP must be a multiple of its prefiller's.
LARGER_PREFILLERS = "0.33.0"


def tensor_parallel_fits(cluster: Cluster) -> Iterator[Finding]:
    serving = cluster.serving
    if serving.mode != "disaggregated" or serving.prefillers is None or serving.decoders is None:
        return
    p, d = serving.prefillers.tensor_parallel, serving.decoders.tensor_parallel
    if why := _lmcache(p, d) if serving.connector == "lmcache" else _nixl(p, d, _vllm(cluster)):
        rule, message, hint = why
        yield Finding(
            rule,
            ("serving", "decoders", "tensor_parallel"),
            f"decoders have tensor_parallel {d} and prefillers {p}; {message}",
            hint,
        )


def _lmcache(p: int, d: int) -> tuple[str, str, str] | None:
    # The cache key holds the number of ranks (LMCache cache_engine.py), so other chunks are never found.
    if p == d:
        return None
    return (
        "MATCH001",
        "with the lmcache connector they must be equal",
        "make them equal, or use `connector: nixl`",
    )


def _nixl(p: int, d: int, vllm: str) -> tuple[str, str, str] | None:
    if d % p == 0:
        return None
    if p % d:
        return "MATCH002", "one must be a multiple of the other", "make them equal"
    if at_least(vllm, LARGER_PREFILLERS):
        return None
    return (
        "MATCH003",
        f"vLLM {vllm} is not known to read from more prefiller ranks than a decoder has",
        f"make them equal, or tensor_parallel of decoders a multiple; known to work from {LARGER_PREFILLERS}",
    )


def _vllm(cluster: Cluster) -> str:
    base = STACKS.get(cluster.stack.base or "", {})
    default = DEFAULT_PINS[(cluster.engine.kind, cluster.engine.device)]
    return cluster.stack.vllm or base.get("vllm") or default["vllm"]
