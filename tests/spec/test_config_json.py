"""config.json of models, as published and as nobody should write it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.knowledge.models import MODELS
from pdctl.spec.config_json import read_config
from pdctl.spec.config_values import MAX_BYTES, ConfigError

DEEPSEEK = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 3,
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "max_position_embeddings": 163840, "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8"}, "vocab_size": 129280, "tie_word_embeddings": False,
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
}  # fmt: skip
GPT_OSS = {
    "model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 128,
    "num_experts_per_tok": 4, "sliding_window": 128, "max_position_embeddings": 131072,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "quantization_config": {"quant_method": "mxfp4"}, "vocab_size": 201088, "tie_word_embeddings": False,
    "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096},
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
    "num_key_value_heads": 8, "intermediate_size": 28672, "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16", "vocab_size": 128256, "tie_word_embeddings": False,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
}  # fmt: skip
QWEN = {
    "model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "max_position_embeddings": 40960,
    "sliding_window": None, "use_sliding_window": False, "torch_dtype": "bfloat16", "rope_scaling": None,
    "vocab_size": 151936, "tie_word_embeddings": False,
}  # fmt: skip
QWEN_MOE = QWEN | {
    "num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4,
    "moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8,
}  # fmt: skip
QWEN35 = {
    "model_type": "qwen3_5_moe",
    "text_config": {
        "num_hidden_layers": 40, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 2,
        "head_dim": 256, "moe_intermediate_size": 512, "num_experts": 256, "num_experts_per_tok": 8,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 10,
        "max_position_embeddings": 262144, "dtype": "bfloat16",
    },
}  # fmt: skip


def read(values: Any) -> Any:
    return read_config(json.dumps(values).encode())


@pytest.mark.parametrize(
    ("model", "config"),
    [
        ("openai/gpt-oss-120b", GPT_OSS),
        ("meta-llama/Llama-3.3-70B-Instruct", LLAMA),
        ("deepseek-ai/DeepSeek-V3", DEEPSEEK),
        ("Qwen/Qwen3-8B", QWEN),
        ("Qwen/Qwen3-235B-A22B", QWEN_MOE),
        ("Qwen/Qwen3.5-35B-A3B", QWEN35),
    ],
)
def test_the_table_holds_what_the_published_file_says(model: str, config: dict[str, Any]) -> None:
    known, found = dict(vars(MODELS[model])), dict(vars(read(config)))
    # The published bytes of DeepSeek V3 hold its layer for speculation, 2.2 % of them.
    assert found.pop("weight_bytes") == pytest.approx(known.pop("weight_bytes"), rel=0.025)
    assert found == known


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"head_dim": None}, "head_dim", 128),
        ({"num_key_value_heads": None}, "kv_heads", 32),
        ({"sliding_window": 4096, "use_sliding_window": True}, "windowed", 36),
        ({"sliding_window": 4096}, "windowed", 0),
        ({"sliding_window": 1024, "sliding_window_pattern": 6, "use_sliding_window": True}, "windowed", 30),
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, "max_model_len", 163840),
        ({"rope_scaling": {"rope_type": "linear", "factor": "4"}}, "max_model_len", 40960),
        ({"rope_scaling": {"rope_type": "linear", "factor": 1e300}}, "max_model_len", 40960),
        ({"max_position_embeddings": None, "n_positions": 1024}, "max_model_len", 1024),
        ({"hybrid_override_pattern": "M-M*-M*", "num_hidden_layers": 7}, "recurrent", 3),
        ({"hybrid_override_pattern": "M-M*-M*", "num_hidden_layers": 7}, "layers", 2),
        ({"multi_query": True}, "kv_heads", 1),
        ({"multi_query": True, "new_decoder_architecture": True}, "kv_heads", 8),
        ({"layer_types": ["full_attention", "mlp"] * 18}, "layers", 18),
        (
            {"quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}},
            "bytes_per_value",
            1,
        ),
        (
            {
                "quantization_config": {
                    "quant_method": "modelopt",
                    "quantization": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}},
                }
            },
            "bytes_per_value",
            1,
        ),
        (
            {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "kv_cache_scheme": {"num_bits": 8, "type": "float"},
                }
            },
            "bytes_per_value",
            2,
        ),
        ({"torch_dtype": "x" * 500}, "weights", "x" * 32),
    ],
)
def test_what_other_families_write_is_understood(change: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(read(QWEN | change), field) == value


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b"null", "is not a JSON object"),
        (b"\xff\xfe{}", "is not UTF-8"),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"a":' * 100_000, "is nested too deeply"),
        (b" " * (MAX_BYTES + 1), "is larger than 4 MiB"),
        (b"{}", "has no `num_hidden_layers`"),
        (b'{"num_hidden_layers": ' + b"9" * 5000 + b"}", "is not JSON"),
        (json.dumps(QWEN | {"num_hidden_layers": 10**9}).encode(), "more than 4096 layers"),
        (json.dumps(QWEN | {"num_hidden_layers": -1}).encode(), "`num_hidden_layers` that is no count"),
        (json.dumps(QWEN | {"num_hidden_layers": "36"}).encode(), "`num_hidden_layers` that is no count"),
        (json.dumps(QWEN | {"num_hidden_layers": True}).encode(), "`num_hidden_layers` that is no count"),
        (json.dumps(QWEN | {"head_dim": 2**40}).encode(), "`head_dim` that is no count"),
        (json.dumps(QWEN | {"hidden_size": 1, "head_dim": None}).encode(), "more attention heads"),
        (json.dumps(QWEN | {"layer_types": ["magic"] * 36}).encode(), "unknown kind"),
        (json.dumps(QWEN | {"layer_types": ["full_attention"]}).encode(), "kinds of 1 layers, and has 36"),
        (json.dumps(QWEN | {"hybrid_override_pattern": "M*"}).encode(), "kinds of 2 layers, and has 36"),
        (json.dumps(QWEN | {"block_configs": [{}]}).encode(), "different shapes"),
        (json.dumps(QWEN | {"ssm_state_size": 16}).encode(), "recurrent layers"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(raw: bytes, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(raw)
    assert says in str(caught.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted({*DEEPSEEK, *GPT_OSS, *QWEN_MOE, "text_config"})), VALUES))
def test_no_value_of_any_field_ends_in_a_traceback(changes: dict[str, Any]) -> None:
    for config in (DEEPSEEK, GPT_OSS, QWEN_MOE):
        try:
            found = read(config | changes)
        except ConfigError as error:
            assert "\n" not in str(error)
        else:
            assert 0 <= found.layers <= 4096 and found.kv_heads > 0 and found.head_dim > 0


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=64))
def test_no_bytes_end_in_a_traceback(raw: bytes) -> None:
    with pytest.raises(ConfigError):
        read_config(raw)
