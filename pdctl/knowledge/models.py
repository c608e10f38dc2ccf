"""Models that are known without a network: what sets the size of their KV and weights, and their work.

Counts: each model's published config.json, as `pdctl.spec.config_json` reads it. Bytes of weights:
`total_size` of the published model.safetensors.index.json, or 2 bytes for each parameter where they are in
bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pdctl.knowledge.vocabularies import GPT_OSS


@dataclass(frozen=True)
class KnownModel:
    layers: int  # that keep KV
    kv_heads: int  # 1 with MLA: a latent vector and its rotary part, which every rank holds whole
    head_dim: int
    bytes_per_value: int  # of the KV cache: 2 for bf16
    max_model_len: int  # tokens; 0: not known
    heads: int = 0  # of queries; as with all that follows, 0: not known
    hidden: int = 0
    active: int = 0  # parameters that a token of a prompt is multiplied with
    weight_bytes: int = 0
    weights: str = ""  # how they are stored
    mla: bool = False
    windowed: int = 0  # layers, of those that keep KV, which look back `window` tokens only
    window: int = 0
    recurrent: int = 0  # layers that keep a state instead of KV: linear attention, Mamba
    experts: int = 0  # of a layer that has some
    vocabulary: tuple[str, ...] = ()  # files that its engines download as they start


TINY = "pdctl/tiny"

_GPT_OSS_120B = KnownModel(
    layers=36, kv_heads=8, head_dim=64, bytes_per_value=2, max_model_len=131072, heads=64, hidden=2880,
    active=4_538_695_680, weight_bytes=65_248_815_744, weights="mxfp4", windowed=18, window=128, experts=128,
    vocabulary=GPT_OSS,
)  # fmt: skip
_GPT_OSS_20B = KnownModel(
    layers=24, kv_heads=8, head_dim=64, bytes_per_value=2, max_model_len=131072, heads=64, hidden=2880,
    active=3_025_797_120, weight_bytes=13_761_264_768, weights="mxfp4", windowed=12, window=128, experts=32,
    vocabulary=GPT_OSS,
)  # fmt: skip
_LLAMA_8B = KnownModel(
    layers=32, kv_heads=8, head_dim=128, bytes_per_value=2, max_model_len=131072, heads=32, hidden=4096,
    active=6_979_321_856, weight_bytes=16_060_522_496, weights="bfloat16",
)  # fmt: skip
_LLAMA_70B = KnownModel(
    layers=80, kv_heads=8, head_dim=128, bytes_per_value=2, max_model_len=131072, heads=64, hidden=8192,
    active=68_451_041_280, weight_bytes=141_107_412_992, weights="bfloat16",
)  # fmt: skip
_QWEN3_32B = KnownModel(
    layers=64, kv_heads=8, head_dim=128, bytes_per_value=2, max_model_len=40960, heads=64, hidden=5120,
    active=31_205_621_760, weight_bytes=65_524_246_528, weights="bfloat16",
)  # fmt: skip
_QWEN3_30B_A3B = KnownModel(
    layers=48, kv_heads=4, head_dim=128, bytes_per_value=2, max_model_len=40960, heads=32, hidden=2048,
    active=2_717_908_992, weight_bytes=61_064_245_248, weights="bfloat16", experts=128,
)  # fmt: skip
_QWEN3_235B_A22B = KnownModel(
    layers=94, kv_heads=4, head_dim=128, bytes_per_value=2, max_model_len=40960, heads=64, hidden=4096,
    active=20_896_022_528, weight_bytes=470_187_269_120, weights="bfloat16", experts=128,
)  # fmt: skip
# 512 of the latent vector and 64 of its rotary part. The bytes hold the layer for speculative decoding too.
_DEEPSEEK_V3 = KnownModel(
    layers=61, kv_heads=1, head_dim=576, bytes_per_value=2, max_model_len=163840, heads=128, hidden=7168,
    active=35_591_487_488, weight_bytes=688_586_727_753, weights="fp8", mla=True, experts=256,
)  # fmt: skip
_QWEN35_35B_A3B = KnownModel(
    layers=10, kv_heads=2, head_dim=256, bytes_per_value=2, max_model_len=262144, heads=16, hidden=2048,
    weights="bfloat16", recurrent=30, experts=256,
)  # fmt: skip


def _qwen3(layers: int, heads: int, hidden: int, active: int, weight_bytes: int) -> KnownModel:
    """A dense one below 32B."""
    return replace(
        _QWEN3_32B, layers=layers, heads=heads, hidden=hidden, active=active, weight_bytes=weight_bytes
    )


# Qwen's fp8 checkpoints: a byte for each weight of a layer, a float32 scale for 128 x 128 of them, and
# embeddings, output and router in bfloat16.
MODELS: dict[str, KnownModel] = {
    "openai/gpt-oss-120b": _GPT_OSS_120B,
    "openai/gpt-oss-20b": _GPT_OSS_20B,
    "meta-llama/Meta-Llama-3-8B": replace(_LLAMA_8B, max_model_len=8192),
    "meta-llama/Meta-Llama-3-8B-Instruct": replace(_LLAMA_8B, max_model_len=8192),
    "meta-llama/Meta-Llama-3-70B": replace(_LLAMA_70B, max_model_len=8192),
    "meta-llama/Meta-Llama-3-70B-Instruct": replace(_LLAMA_70B, max_model_len=8192),
    "meta-llama/Llama-3.1-8B": _LLAMA_8B,
    "meta-llama/Llama-3.1-8B-Instruct": _LLAMA_8B,
    "meta-llama/Meta-Llama-3.1-8B-Instruct": _LLAMA_8B,
    "meta-llama/Llama-3.1-70B": _LLAMA_70B,
    "meta-llama/Llama-3.1-70B-Instruct": _LLAMA_70B,
    "meta-llama/Meta-Llama-3.1-70B-Instruct": _LLAMA_70B,
    "meta-llama/Llama-3.3-70B-Instruct": _LLAMA_70B,
    "Qwen/Qwen3-0.6B": _qwen3(28, 16, 1024, 440_401_920, 1_192_099_840),
    "Qwen/Qwen3-1.7B": _qwen3(28, 16, 2048, 1_409_286_144, 3_441_149_952),
    "Qwen/Qwen3-4B": _qwen3(36, 32, 2560, 3_633_315_840, 8_044_936_192),
    "Qwen/Qwen3-8B": _qwen3(36, 32, 4096, 6_945_767_424, 16_381_470_720),
    "Qwen/Qwen3-14B": _qwen3(40, 40, 5120, 13_212_057_600, 29_536_614_400),
    "Qwen/Qwen3-32B": _QWEN3_32B,
    "Qwen/Qwen3-32B-FP8": replace(_QWEN3_32B, weight_bytes=34_326_000_000, weights="fp8"),
    "Qwen/Qwen3-30B-A3B": _QWEN3_30B_A3B,
    "Qwen/Qwen3-30B-A3B-Instruct-2507": replace(_QWEN3_30B_A3B, max_model_len=262144),
    "Qwen/Qwen3-30B-A3B-Thinking-2507": replace(_QWEN3_30B_A3B, max_model_len=262144),
    "Qwen/Qwen3-30B-A3B-FP8": replace(_QWEN3_30B_A3B, weight_bytes=31_174_000_000, weights="fp8"),
    "Qwen/Qwen3-235B-A22B": _QWEN3_235B_A22B,
    "Qwen/Qwen3-235B-A22B-Instruct-2507": replace(_QWEN3_235B_A22B, max_model_len=262144),
    "Qwen/Qwen3-235B-A22B-Thinking-2507": replace(_QWEN3_235B_A22B, max_model_len=262144),
    "Qwen/Qwen3-235B-A22B-FP8": replace(_QWEN3_235B_A22B, weight_bytes=236_445_000_000, weights="fp8"),
    "deepseek-ai/DeepSeek-V3": _DEEPSEEK_V3,
    "deepseek-ai/DeepSeek-V3-0324": _DEEPSEEK_V3,
    "deepseek-ai/DeepSeek-R1": _DEEPSEEK_V3,
    "deepseek-ai/DeepSeek-R1-0528": _DEEPSEEK_V3,
    # Three of four layers keep a state instead of KV.
    "Qwen/Qwen3.5-35B-A3B": _QWEN35_35B_A3B,
    "Qwen/Qwen3.5-35B-A3B-FP8": replace(_QWEN35_35B_A3B, weights="fp8"),
    # Ours: random weights in float32, made by pdctl.parts.tiny_model.
    TINY: KnownModel(2, 2, 64, 4, 2048, heads=2, hidden=128, weight_bytes=2_364_072, weights="float32"),
}
