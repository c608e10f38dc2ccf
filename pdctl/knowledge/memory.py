"""What a GPU's memory holds besides weights and KV, and how sure that is. In GiB.

Estimates from vLLM's accounting (v1/worker/gpu_worker.py, 0.11.0 and 0.33.0), not measured: hence ranges.
"""

from __future__ import annotations

from pdctl.knowledge.versions import at_least

# Within gpu_memory_utilization: activations, CUDA graphs, NCCL, repacked weights.
ENGINE, ENGINE_LEAST, ENGINE_MOST = 3.0, 1.0, 5.0
# Beside it: the CUDA context, and what UCX and NIXL allocate.
CONTEXT_LEAST, CONTEXT_MOST = 0.5, 2.0
# With these in `extra_args` weights or KV take another share than the model's files say.
ALTERING = (
    "--quantization",
    "--quantization-config",
    "--load-format",
    "--cpu-offload-gb",
    "--kv-cache-memory",
    "--kv-cache-memory-bytes",
    "--num-gpu-blocks-override",
    "--speculative-config",
    "--spec-method",
    "--spec-model",
    "--offload-backend",
    "--offload-params",
    "--cpu-offload-params",
    "--model-class-overrides",
    "--enable-lora",
    "--hf-overrides",
    "--hf-config-path",
    "--data-parallel-size",
    "--pipeline-parallel-size",
    "--decode-context-parallel-size",
    "--prefill-context-parallel-size",
)


def default_utilization(vllm: str) -> float:
    """vLLM config/cache.py: 0.9 in 0.11.0, 0.92 in 0.32.0."""
    return 0.92 if at_least(vllm, "0.32.0") else 0.9
