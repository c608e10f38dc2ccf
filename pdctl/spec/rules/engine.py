"""Rules on what each engine can do."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.knowledge.models import TINY
from pdctl.knowledge.systems import CPU_ENGINE_SYSTEM, SYSTEM_PYTHON
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules.rule import pools


def the_cpu_engine_is_small(cluster: Cluster) -> Iterator[Finding]:
    if cluster.engine.kind != "vllm" or cluster.engine.device != "cpu":
        return
    for path, pool in pools(cluster):
        if pool.tensor_parallel != 1:
            yield Finding(
                "ENGINE001",
                (*path, "tensor_parallel"),
                f"the CPU engine runs with tensor_parallel 1, not {pool.tensor_parallel}",
                "set it to 1, or `engine.device: cuda`",
            )
        for i, place in enumerate(pool.placement or ()):
            if place.gpus:
                yield Finding(
                    "ENGINE002",
                    (*path, "placement", i, "gpus"),
                    "the CPU engine uses no GPUs",
                    "remove `gpus`, or set `engine.device: cuda`",
                    on_key=True,
                )


def the_cpu_engine_has_one_system(cluster: Cluster) -> Iterator[Finding]:
    if cluster.engine.kind != "vllm" or cluster.engine.device != "cpu":
        return
    for i, host in enumerate(cluster.hosts):
        if host.os not in (None, CPU_ENGINE_SYSTEM):
            yield Finding(
                "ENGINE003",
                ("hosts", i, "os"),
                f"the CPU engine (`engine.device: cpu`) needs Python {SYSTEM_PYTHON[CPU_ENGINE_SYSTEM]} of"
                f" {CPU_ENGINE_SYSTEM}, and {host.os} has {SYSTEM_PYTHON[host.os]}",
                f"use a {CPU_ENGINE_SYSTEM} host, or another engine",
            )


def the_tiny_model_stays_off_gpus(cluster: Cluster) -> Iterator[Finding]:
    if cluster.model.id == TINY and cluster.engine.kind == "vllm" and cluster.engine.device == "cuda":
        yield Finding(
            "MODEL001",
            ("model", "id"),
            f"`{TINY}` has random weights and is made for the CPU engine and the simulator",
            "name a real model, or set `engine.device: cpu`",
        )


def timing_is_the_simulators(cluster: Cluster) -> Iterator[Finding]:
    if cluster.engine.kind != "simulator" and "simulator" in cluster.engine.model_fields_set:
        yield Finding(
            "USE004",
            ("engine", "simulator"),
            f"has no effect with engine `{cluster.engine.kind}`",
            "remove it, or set `kind: simulator`",
            on_key=True,
        )
