"""Topology and model -> what one GPU of each role must hold, and whether it fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pdctl.knowledge.attention import all_layers_keep_everything
from pdctl.knowledge.gpus import GPUS
from pdctl.knowledge.memory import (
    ALTERING,
    CONTEXT_LEAST,
    CONTEXT_MOST,
    ENGINE,
    ENGINE_LEAST,
    ENGINE_MOST,
    default_utilization,
)
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster, Host
from pdctl.spec.rules.settings import effective
from pdctl.spec.serving import Pool
from pdctl.topology.known import Known
from pdctl.topology.kv import chunk_bytes
from pdctl.topology.model import Instance, Kv, Role
from pdctl.topology.placement import pool_path, pools, uses_gpus
from pdctl.topology.suits import fits_heads

GIB = 2**30
# Bytes of a weight in `torch_dtype` and `model.dtype`; quantised ones stay as they are stored.
STORED = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}
LEAST = 0.05  # of a GPU's memory for vLLM, where the buffer alone is too large


@dataclass(frozen=True)
class Load:
    """One GPU of a role, in bytes. `memory` and `weights` are 0 where they are not known."""

    role: Role
    tensor_parallel: int
    memory: float
    utilization: float
    chosen: bool  # by pdctl, so that the buffer fits beside it
    weights: float
    bytes_per_token: int
    longest: float  # KV of one request of max_model_len
    longest_least: float  # the same if sliding layers turn out to keep their window only
    buffer: int

    @property
    def share(self) -> float:
        """What vLLM takes."""
        return self.memory * self.utilization

    @property
    def tokens(self) -> int | None:
        """That fit into the KV cache, by the middle of the estimate."""
        if not self.memory or not self.weights or not self.bytes_per_token:
            return None
        room = self.share - self.weights - ENGINE * GIB
        return max(0, int(room / self.bytes_per_token))


def loads(
    cluster: Cluster, found: Known, kv: Kv | None, pins: Mapping[str, str], instances: Sequence[Instance]
) -> list[Load]:
    """Of each role, on the smallest GPU that it runs on; its KV is 0 without a known shape."""
    if not uses_gpus(cluster):
        return []
    hosts = {host.name: host for host in cluster.hosts}
    rows = []
    for role, pool in pools(cluster):
        used = {instance.host for instance in instances if instance.role is role}
        memory = min((_memory(hosts[name]) for name in used), default=0.0)
        rows.append(_load(cluster, found, kv, pins, role, pool, memory))
    return rows


def unfit(cluster: Cluster, found: Known, loads: Sequence[Load]) -> Iterator[Finding]:
    """An error where a GPU cannot hold it by any estimate, a warning where it may not."""
    for load in loads:
        if load.memory and load.weights:
            yield from _in_share(cluster, found, load)
        yield from _beside_share(load)


def _load(
    cluster: Cluster,
    found: Known,
    kv: Kv | None,
    pins: Mapping[str, str],
    role: Role,
    pool: Pool,
    memory: float,
) -> Load:
    shape, vllm = found.shape, pins.get("vllm", "")
    token = chunk_bytes(shape, pool.tensor_parallel, 1) if shape else 0
    flags = effective(pool.extra_args)
    altered = any(flag in flags for flag in ALTERING)
    weights = 0.0 if altered else _weight_bytes(cluster, found) / pool.tensor_parallel
    connector = cluster.serving.connector if role is not Role.SERVER else None
    whole = all_layers_keep_everything(connector, vllm)
    tokens = found.max_model_len or 0
    windows = _windowed(found, tokens)
    buffer = 0
    if kv is not None:
        buffer = kv.prefiller_buffer_bytes if role is Role.PREFILLER else kv.buffer_bytes
    usual = pool.gpu_memory_utilization or default_utilization(vllm)
    chosen = (
        pool.gpu_memory_utilization is None and buffer > 0 and memory > 0 and _beside(memory, buffer) < usual
    )
    return Load(
        role=role,
        tensor_parallel=pool.tensor_parallel,
        memory=memory,
        utilization=max(LEAST, _beside(memory, buffer)) if chosen else usual,
        chosen=chosen,
        weights=weights,
        bytes_per_token=token,
        longest=token * (windows if whole is False else tokens),
        longest_least=token * (tokens if whole else windows),
        buffer=buffer,
    )


def _weight_bytes(cluster: Cluster, found: Known) -> float:
    """As the engines hold them: float32 in 16 bits, and 16 bits in float32 where `model.dtype` says so."""
    facts = found.facts
    if facts is None:
        return 0.0
    stored = STORED.get(facts.weights, 0)
    held = STORED.get(cluster.model.dtype or "", 2)
    return facts.weight_bytes * (held / stored if stored else 1.0)


def _beside(memory: float, buffer: int) -> float:
    """The largest share for vLLM that surely leaves room for the buffer, in hundredths."""
    return math.floor((memory - buffer - CONTEXT_MOST * GIB) / memory * 100) / 100


def _windowed(found: Known, tokens: int) -> float:
    """Tokens that all layers together keep of `tokens` when sliding ones keep their window only."""
    facts = found.facts
    if facts is None or not facts.windowed or not facts.layers:
        return tokens
    kept = (facts.layers - facts.windowed) * tokens + facts.windowed * min(tokens, facts.window or tokens)
    return kept / facts.layers


def _memory(host: Host) -> float:
    known = GPUS.get(host.gpus.model or "")
    return known.memory_mib * 2.0**20 if known else (host.gpus.memory_gib or 0.0) * GIB


def _in_share(cluster: Cluster, found: Known, load: Load) -> Iterator[Finding]:
    least = load.weights + load.longest_least + ENGINE_LEAST * GIB
    most = load.weights + load.longest + ENGINE_MOST * GIB
    if most <= load.share:
        return
    surely = least > load.share
    why = f", for the transfer buffer of {_gib(load.buffer)} GiB" if load.chosen else ""
    yield Finding(
        "MEM001" if surely else "MEM002",
        (*pool_path(load.role), "tensor_parallel"),
        f"each GPU gives vLLM {_gib(load.share)} of {_gib(load.memory)} GiB (gpu_memory_utilization"
        f" {load.utilization:g}{why}); weights take {_gib(load.weights)}, KV of model.max_model_len"
        f" {found.max_model_len} tokens {_gib(load.longest)}, and the engine {ENGINE_LEAST:g} to"
        f" {ENGINE_MOST:g}: it {'cannot' if surely else 'may not'} fit",
        _way_out(cluster, found, load),
    )


def _way_out(cluster: Cluster, found: Known, load: Load) -> str:
    ways = []
    whole = load.weights * load.tensor_parallel
    for more in (2, 4, 8, 16):
        ranks = load.tensor_parallel * more
        if found.facts is None or not fits_heads(found.facts, ranks) or ranks > 64 or found.shape is None:
            continue
        token = chunk_bytes(found.shape, ranks, 1)
        need = whole / ranks + load.longest / load.bytes_per_token * token + ENGINE_MOST * GIB
        if need <= load.share:
            ways.append(f"use tensor_parallel {ranks}")
            break
    room = load.share - load.weights - ENGINE_MOST * GIB
    tokens = int(room / load.bytes_per_token) // 1024 * 1024 if load.bytes_per_token else 0
    if tokens > 0:
        ways.append(f"set `model.max_model_len` to {tokens} or less")
    return ", or ".join(ways) or "use GPUs with more memory, or a quantised model"


def _beside_share(load: Load) -> Iterator[Finding]:
    """What is left beside vLLM's share must hold the CUDA context, and LMCache's buffer if there is one."""
    left = load.memory - load.share
    if not load.memory:
        if load.utilization >= 1:
            yield _no_room(load, "leaves nothing of any GPU", "cannot", "set it to 0.95 or less")
        return
    if load.buffer + CONTEXT_MOST * GIB <= left:
        return
    can = "cannot" if load.buffer + CONTEXT_LEAST * GIB > left else "may not"
    fits = _beside(load.memory, load.buffer)
    ways = [f"set `gpu_memory_utilization` to {fits:g} or less"] if fits > 0 else []
    if load.buffer:
        ways.append("make the buffer smaller with `serving.lmcache.buffer_bytes` or `model.max_model_len`")
    leaves = f"leaves {_gib(left)} of {_gib(load.memory)} GiB of each GPU"
    yield _no_room(load, leaves, can, ", or ".join(ways) or "use GPUs with more memory")


def _no_room(load: Load, leaves: str, can: str, hint: str) -> Finding:
    buffer = f"the transfer buffer of {_gib(load.buffer)} GiB and " if load.buffer else ""
    need = "need" if load.buffer else "needs"
    return Finding(
        "MEM003" if can == "cannot" else "MEM004",
        (*pool_path(load.role), "gpu_memory_utilization"),
        f"vLLM's share with gpu_memory_utilization {load.utilization:g} {leaves}; {buffer}the CUDA context,"
        f" which takes {CONTEXT_LEAST:g} to {CONTEXT_MOST:g} GiB, {need} that: it {can} fit",
        hint,
    )


def _gib(value: float) -> str:
    return f"{value / GIB:.1f}"
