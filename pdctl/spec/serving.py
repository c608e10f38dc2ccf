"""The `serving` section: roles, counts, placement, ports."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from pdctl.spec.values import (
    Environment,
    HashSeed,
    HostName,
    Labels,
    Line,
    Port,
    Positive,
    Section,
    TensorParallel,
    optional,
)


class InstancePorts(Section):
    """Pinned ports of one instance; absent ones come from the cluster's bases."""

    http: Port | None = Field(None, description="HTTP.")
    side_channel: list[Port] | None = Field(
        None, max_length=64, description="NIXL side channel, one per port the engine opens."
    )
    init: list[Port] | None = Field(None, max_length=64, description="LMCache init, one per TP rank.")
    alloc: list[Port] | None = Field(None, max_length=64, description="LMCache alloc, one per TP rank.")


GpuIndex = Annotated[int, Field(ge=0, le=63)]


class Place(Section):
    """Where one instance goes."""

    host: HostName = Field(description="Name of the host.")
    gpus: list[GpuIndex] | None = Field(
        None,
        max_length=64,
        description="GPU indexes in PCI order, one per TP rank; default: chosen by pdctl.",
    )
    ports: InstancePorts = optional("Pinned ports.")


def _place(value: Any) -> Any:
    return {"host": value} if isinstance(value, str) else value


class Pool(Section):
    """The instances of one role."""

    count: int = Field(1, ge=0, le=4096, description="How many; default: as many as `placement` lists, or 1.")
    tensor_parallel: TensorParallel = Field(1, description="GPUs per instance.")
    hosts: list[HostName] | None = Field(
        None, min_length=1, max_length=2000, description="Hosts it may use, in order; default: all."
    )
    labels: Labels = Field({}, description="Only hosts that carry these labels.")
    placement: list[Annotated[Place, BeforeValidator(_place)]] | None = Field(
        None,
        max_length=4096,
        description="One entry per instance: a host, or `{host, gpus, ports}`; default: chosen by pdctl.",
    )
    gpu_memory_utilization: float | None = Field(
        None,
        gt=0,
        le=1,
        description="vLLM's share of GPU memory; default: vLLM's own, or what leaves room for the buffer.",
    )
    max_num_seqs: Positive | None = Field(None, description="Requests an instance works on at once.")
    max_num_batched_tokens: Positive | None = Field(None, description="Token budget of one step.")
    extra_args: list[Line] = Field([], max_length=256, description="More engine arguments, word by word.")
    env: Environment = Field({}, description="More environment variables.")

    @model_validator(mode="before")
    @classmethod
    def _count_what_is_placed(cls, value: Any) -> Any:
        """`placement` alone says how many."""
        if not isinstance(value, dict) or "count" in value or not isinstance(value.get("placement"), list):
            return value
        return {**value, "count": len(value["placement"])}


class ProxyPorts(Section):
    """Ports of the proxy."""

    http: Port = Field(9100, description="Front door.")
    notification: Port = Field(7500, description="KV-ready notices from the prefillers (LMCache).")
    metrics: Port = Field(9101, description="Prometheus metrics.")


class Proxy(Section):
    """The front door."""

    host: HostName | None = Field(None, description="Its host; default: the first.")
    ports: ProxyPorts = optional("Its ports.")


class BasePorts(Section):
    """First port of each kind; instance i of a role on a host takes base + i (times TP for rank ports)."""

    prefiller: Port = Field(7100, description="Prefiller HTTP.")
    decoder: Port = Field(7200, description="Decoder HTTP.")
    server: Port = Field(7200, description="Aggregated server HTTP.")
    init: Port = Field(7300, description="LMCache init, one per decoder rank.")
    alloc: Port = Field(7400, description="LMCache alloc, one per decoder rank.")
    side_channel: Port = Field(5600, description="NIXL side channel.")
    internal_api: Port = Field(6000, description="LMCache's internal API (loopback), 1 + TP per instance.")
    engine: Port = Field(20000, description="vLLM's own sockets (VLLM_PORT), a block of 64 per instance.")


class LmcacheTuning(Section):
    """LMCache settings that both sides share, and the size of the transfer buffers."""

    chunk_size: Positive = Field(256, description="Tokens per KV chunk.")
    buffer_bytes: int | None = Field(
        None,
        ge=1,
        description="Decoder's buffer per rank, which bounds the prompts in flight; default: computed.",
    )
    prefiller_buffer_bytes: int | None = Field(
        None, ge=1, description="Prefiller's buffer per rank; default: computed."
    )
    hash_seed: HashSeed = Field("0", description="PYTHONHASHSEED of every instance.")


SHARE = r"([1-9][0-9]?|100)%"


def _at_once(value: Any) -> Any:
    counts = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if counts or (isinstance(value, str) and re.fullmatch(SHARE, value)):
        return value
    raise ValueError("must be a count of at least 1, or a share of the role as `25%`")


AtOnce = Annotated[
    int | str,
    BeforeValidator(_at_once),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": f"^{SHARE}$"}]}
    ),
]


class Rollout(Section):
    """How running instances are restarted while the others serve."""

    canary: int = Field(
        1, ge=0, le=4096, description="Instances of each role that restart first, before any other."
    )
    max_unavailable: AtOnce = Field(
        1,
        description="Instances of a role that restart at once, a count or a share as `25%`; one always serves"
        " where there are two.",
    )
    drain_timeout_s: int = Field(
        600, ge=1, le=86400, description="How long the requests of an instance may take before it restarts."
    )
    allow_reboot: bool = Field(
        False,
        description="Whether `apply` reboots hosts that need it, drained and batch by batch; else only with"
        " `--allow-reboot`.",
    )
    reboot_timeout_s: int = Field(
        1800, ge=10, le=86400, description="How long a host may take to be back after a reboot."
    )


class Serving(Section):
    """How the model is served."""

    mode: Literal["disaggregated", "aggregated"] = Field("disaggregated", description="PD, or plain servers.")
    connector: Literal["lmcache", "nixl"] = Field("lmcache", description="What moves the KV.")
    prefillers: Pool | None = Field(None, description="Instances that compute the KV of prompts.")
    decoders: Pool | None = Field(None, description="Instances that generate tokens.")
    instances: Pool | None = Field(None, description="Aggregated servers.")
    proxy: Proxy = optional("The address that clients use.")
    ports: BasePorts = optional("Port bases.")
    lmcache: LmcacheTuning = optional("LMCache settings.")
    rollout: Rollout = optional("How changes reach running instances.")
    load_timeout_s: int = Field(1800, ge=10, le=86400, description="How long an instance may take to load.")
