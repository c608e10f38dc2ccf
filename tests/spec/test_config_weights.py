"""Bytes of weights from a config.json alone, against the sizes of published checkpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pdctl.spec.config_json import read_config
from tests.spec.test_config_json import DEEPSEEK, GPT_OSS, LLAMA, QWEN, QWEN_MOE

GB = 1e9
LLAMA_405B = LLAMA | {
    "num_hidden_layers": 126, "hidden_size": 16384, "num_attention_heads": 128, "intermediate_size": 53248,
}  # fmt: skip
MIXTRAL = {
    "model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
    "vocab_size": 32000, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "sliding_window": None,
}  # fmt: skip
OPT = {
    "model_type": "opt", "num_hidden_layers": 64, "hidden_size": 9216, "num_attention_heads": 72,
    "ffn_dim": 36864, "vocab_size": 50272, "torch_dtype": "float16",
}  # fmt: skip
SCOUT = {
    "model_type": "llama4", "text_config": {
        "num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_local_experts": 16,
        "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "vocab_size": 202048,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    },
}  # fmt: skip


def weights(config: dict[str, Any], **more: Any) -> float:
    return read_config(json.dumps(config | more).encode()).weight_bytes / GB


@pytest.mark.parametrize(
    ("config", "gigabytes"),
    [
        (LLAMA_405B, 811.7),
        (LLAMA, 141.1),
        (QWEN, 16.4),
        (QWEN_MOE, 470.2),
        (MIXTRAL, 93.4),
        (OPT, 131.7),
        (GPT_OSS, 65.2),
        (DEEPSEEK, 674),  # 688.6 with its layer for speculation
        (SCOUT, 215.6),
    ],
)
def test_weights_are_as_large_as_those_published(config: dict[str, Any], gigabytes: float) -> None:
    assert weights(config) == pytest.approx(gigabytes, rel=0.03)


def quantised(method: str, **more: Any) -> dict[str, Any]:
    return {"quant_method": method, **more}


@pytest.mark.parametrize(
    ("method", "gigabytes"),
    [
        (quantised("fp8"), 72.7),
        (quantised("fbgemm_fp8", modules_to_not_convert=["model.layers.0.self_attn.q_proj"]), 72.7),
        (quantised("awq", bits=4, group_size=128), 39.8),
        (quantised("gptq", bits=8, group_size=-1), 72.7),
        (quantised("compressed-tensors", config_groups={"g": {"weights": {"num_bits": 8}}}), 72.7),
        (
            quantised(
                "compressed-tensors",
                config_groups={"g": {"weights": {"num_bits": 4, "group_size": 128}}},
                ignore=["lm_head"],
            ),
            39.8,
        ),
        (quantised("modelopt", quant_algo="NVFP4"), 42.7),
        (quantised("bitsandbytes", load_in_4bit=True), 42.7),
        (quantised("fp8", ignored_layers=["re:.*self_attn.*"]), 84.8),
        ({}, 141.1),
        # Whoever packs weights in a way that is not known says nothing of their size.
        (quantised("gguf"), 0),
        (quantised("awq", bits="4"), 0),
        (quantised("compressed-tensors", config_groups=[1]), 0),
        (quantised("compressed-tensors", config_groups={"g": 1}), 0),
        ({"quant_method": None}, 0),
    ],
)  # fmt: skip
def test_quantised_weights_take_their_bits(method: dict[str, Any], gigabytes: float) -> None:
    assert weights(LLAMA, quantization_config=method) == pytest.approx(gigabytes, rel=0.03)


def test_weights_in_float32_are_twice_as_large_and_tied_tables_counted_once() -> None:
    assert weights(LLAMA, torch_dtype="float32") == pytest.approx(282.2, rel=0.03)
    table = 128256 * 8192 * 2 / GB
    for tied in ({"tie_word_embeddings": True}, {"tie_word_embeddings": None}):
        assert weights(LLAMA, **tied) == pytest.approx(weights(LLAMA) - table)


@pytest.mark.parametrize(
    ("change", "layers"),
    [
        ({}, 94),
        ({"first_k_dense_replace": 4}, 90),
        ({"decoder_sparse_step": 2}, 47),
        ({"mlp_only_layers": [0, 1, 1]}, 92),
        ({"moe_layer_freq": 2}, 47),
    ],
)
def test_only_layers_with_experts_have_them(change: dict[str, Any], layers: int) -> None:
    of_experts = 128 * 3 * 4096 * 1536 * 2 / GB
    assert weights(QWEN_MOE, intermediate_size=0, **change) == pytest.approx(
        layers * of_experts + weights(QWEN_MOE, intermediate_size=0, first_k_dense_replace=94), rel=0.01
    )


@pytest.mark.parametrize(
    "change", [{"vocab_size": None}, {"vocab_size": "x"}, {"vocab_size": -1}, {"intermediate_size": None}]
)
def test_a_file_without_what_it_takes_says_nothing_of_the_size(change: dict[str, Any]) -> None:
    assert weights(LLAMA, **change) == 0
