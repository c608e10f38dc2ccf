"""How fast prompts are computed and KV is moved: rough figures, to tell what would bind.

Fitted to public measurements of gpt-oss-120b with vLLM on H100: 8192 tokens in 397, 226, 140 and 97 ms with
1, 2, 4 and 8 GPUs; the figures below give them within a quarter. Others may be off by a third.
"""

from __future__ import annotations

# Share of a GPU's dense bfloat16 speed that prefill reaches.
DENSE, EXPERTS = 0.37, 0.19
# Bytes per second of an all-reduce over NVLink; each layer makes two, of a hidden vector per token.
ALL_REDUCE = 133e9
ALL_REDUCES_PER_LAYER = 2
# Share of a link's nominal speed that transfers reach, and what TCP through the host reaches at most, in
# bytes per second (assumed).
LINK = 0.9
TCP_MOST = 3e9
# What is said of transfer time over prefill time: from here on doubtful, and from here on refused.
DOUBTFUL, TOO_SLOW = 0.1, 1.0
# A prompt long enough that fixed costs do not matter.
PROMPT = 8192


def prefill_s(
    tokens: int, active: int, layers: int, hidden: int, experts: int, gpus: int, tflops: float
) -> float:
    """Seconds that `gpus` together take for a prompt."""
    compute = 2 * active * tokens / (gpus * tflops * 1e12 * (EXPERTS if experts else DENSE))
    if gpus == 1:
        return compute
    return compute + ALL_REDUCES_PER_LAYER * layers * tokens * hidden * 2 / ALL_REDUCE


def link_bytes_per_s(gbit: float, kind: str) -> float:
    reached = LINK * gbit * 1e9 / 8
    return min(reached, TCP_MOST) if kind == "ethernet" else reached
