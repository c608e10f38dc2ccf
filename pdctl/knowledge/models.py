"""Models whose KV shape is known, so that buffers can be computed without a network.

Layers, KV heads and head size: each model's published config.json (num_hidden_layers,
num_key_value_heads, head_dim or hidden_size / num_attention_heads, max_position_embeddings).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownModel:
    layers: int
    kv_heads: int
    head_dim: int
    bytes_per_value: int  # of the KV cache: 2 for bf16
    max_model_len: int  # tokens


TINY = "pdctl/tiny"

MODELS: dict[str, KnownModel] = {
    "openai/gpt-oss-120b": KnownModel(36, 8, 64, 2, 131072),
    "openai/gpt-oss-20b": KnownModel(24, 8, 64, 2, 131072),
    "meta-llama/Llama-3.1-8B-Instruct": KnownModel(32, 8, 128, 2, 131072),
    "meta-llama/Llama-3.1-70B-Instruct": KnownModel(80, 8, 128, 2, 131072),
    "meta-llama/Llama-3.3-70B-Instruct": KnownModel(80, 8, 128, 2, 131072),
    # Ours: random weights in float32, made by pdctl.parts.tiny_model.
    TINY: KnownModel(2, 2, 64, 4, 2048),
}
