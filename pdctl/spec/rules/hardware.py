"""Rules on the GPUs that hosts declare, against the table of those that are known."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.knowledge.gpus import GPUS
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster, Host
from pdctl.spec.rules.rule import guess

NEAR = 0.1  # share by which `memory_gib` may differ from the table's: makers count in other units


def gpu_models_are_known(cluster: Cluster) -> Iterator[Finding]:
    for i, host in _with_gpus(cluster):
        model = host.gpus.model
        if model is None or model in GPUS:
            continue
        lost = "memory, speed and NVSwitches" if host.gpus.memory_gib is None else "speed and NVSwitches"
        memory = " Else give `memory_gib`, and suppress the rule" if host.gpus.memory_gib is None else ""
        yield Finding(
            "GPU007",
            ("hosts", i, "gpus", "model"),
            f"pdctl does not know the GPU `{model}`, so {lost} are not checked",
            f"{guess(model, GPUS)}{memory}",
        )


def gpu_memory_is_that_of_the_model(cluster: Cluster) -> Iterator[Finding]:
    for i, host in _with_gpus(cluster):
        known, given = GPUS.get(host.gpus.model or ""), host.gpus.memory_gib
        if known is None or given is None:
            continue
        has = known.memory_mib / 1024
        if abs(given - has) > NEAR * has:
            yield Finding(
                "GPU008",
                ("hosts", i, "gpus", "memory_gib"),
                f"`{host.gpus.model}` has {has:.1f} GiB, which count, not {given:g}",
                "remove `memory_gib`, or correct `model`",
                on_key=True,
            )


def _with_gpus(cluster: Cluster) -> Iterator[tuple[int, Host]]:
    if cluster.engine.kind == "vllm" and cluster.engine.device == "cuda":
        yield from ((i, host) for i, host in enumerate(cluster.hosts) if host.gpus.count)
