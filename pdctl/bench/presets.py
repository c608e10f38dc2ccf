"""Named workloads as data: the quick load for each kind of engine, and the grid of the reference article."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pdctl.spec.model import Cluster


@dataclass(frozen=True)
class Preset:
    num_prompts: int
    max_concurrency: int
    input_len: int
    output_len: int
    warmups: int


# Sized to end in seconds on the smallest machine each engine runs on: two cores for the CPU engine and the
# simulator, one server for CUDA. 64 requests are enough for a p90, not for a p99 of TTFT; see docs/bench.md.
QUICK: Mapping[str, Preset] = MappingProxyType(
    {
        "simulator": Preset(num_prompts=32, max_concurrency=4, input_len=128, output_len=32, warmups=4),
        "cpu": Preset(num_prompts=32, max_concurrency=4, input_len=128, output_len=32, warmups=4),
        "cuda": Preset(num_prompts=64, max_concurrency=8, input_len=1024, output_len=256, warmups=8),
    }
)


def quick_load(cluster: Cluster) -> Preset:
    """The quick load, with what the spec's `bench` says in its place."""
    engine, asked = cluster.engine, cluster.bench
    preset = QUICK["simulator" if engine.kind == "simulator" else engine.device]
    return Preset(
        num_prompts=asked.num_prompts or preset.num_prompts,
        max_concurrency=asked.concurrency or preset.max_concurrency,
        input_len=asked.input_len or preset.input_len,
        output_len=asked.output_len or preset.output_len,
        warmups=preset.warmups,
    )


# The article's closed-loop grid: random prompts of 1k and 8k, 1k out, cap 1 to 32, ten prompts for each slot.
# It does not say whether "k" is 1000 or 1024; 1024 is the default input length of vLLM's bench.
ARTICLE_INPUTS = (1024, 8192)
ARTICLE_OUTPUT = 1024
ARTICLE_CONCURRENCY = (1, 2, 4, 8, 16, 32)

ARTICLE_GRID: tuple[Preset, ...] = tuple(
    Preset(10 * slots, slots, length, ARTICLE_OUTPUT, warmups=slots)
    for length in ARTICLE_INPUTS
    for slots in ARTICLE_CONCURRENCY
)
