"""config.json of a Hugging Face model -> what sets the size of its KV, its weights and a token's work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pdctl.knowledge.models import KnownModel
from pdctl.knowledge.vocabularies import NEEDED
from pdctl.spec.config_values import ConfigError, attention_of, count, shape_of, values_of
from pdctl.spec.config_weights import config_weights

MOST_LAYERS = 4096
# Parts of the words in `layer_types` and its older names: layers that keep a state, the KV of a window, all
# KV, nothing at all. The first that fits counts.
WORDS = {
    "recurrent": ("linear", "mamba", "recurrent", "conv", "delta"),
    "windowed": ("sliding", "chunked", "local"),
    "full": ("attention", "full"),
    "none": ("moe", "mlp"),
}
# Nemotron-H writes one letter a layer: `*` attention, `M` Mamba, `-` and `E` none that keeps anything.
ATTENTION_LETTER, MAMBA_LETTER = "*", "M"
# Keys of models with recurrent layers that do not say which (Mamba, Jamba, Falcon-H1, Bamba).
RECURRENT = ("mamba_d_state", "ssm_state_size", "mamba_num_heads", "state_size", "linear_num_key_heads")
# Layers that differ from each other, of which these keys hold one by one: no single shape fits.
UNEVEN = (
    "block_configs",
    "global_head_dim",
    "num_global_key_value_heads",
    "swa_head_dim",
    "swa_num_key_value_heads",
    "attention_other_setting",
    "compress_ratios",
)
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "n_ctx")
# These leave max_position_embeddings as it is scaled already (vLLM config/model.py, 0.32.0).
SCALED_ALREADY = frozenset(
    {"default", "mrope", "su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"}
)


def read_config(raw: bytes) -> KnownModel:
    """The model that the file describes; its weights' size by their shapes. Raises ConfigError."""
    values = values_of(raw)
    for key in UNEVEN:
        if values.get(key):
            raise ConfigError(f"has layers of different shapes (`{key}`)")
    layers = count(values, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    heads = count(values, "num_attention_heads", "n_head", "n_heads")
    hidden = count(values, "hidden_size", "n_embd", "d_model")
    if not layers or not heads or not hidden:
        missing = "num_hidden_layers" if not layers else "num_attention_heads" if not heads else "hidden_size"
        raise ConfigError(f"has no `{missing}`")
    if layers > MOST_LAYERS:
        raise ConfigError(f"has more than {MOST_LAYERS} layers")
    full, windowed, recurrent = _kinds(values, layers)
    kv_heads, head_dim, mla = shape_of(values, heads, hidden)
    return KnownModel(
        layers=full + windowed,
        kv_heads=kv_heads,
        head_dim=head_dim,
        bytes_per_value=_kv_bytes(values),
        max_model_len=_positions(values),
        heads=heads,
        hidden=hidden,
        active=0 if recurrent else _active(values, layers, heads, hidden),
        weight_bytes=config_weights(values, layers, heads, hidden, recurrent),
        weights=_format(values),
        mla=mla,
        windowed=windowed,
        window=count(values, "sliding_window", "attention_chunk_size") if windowed else 0,
        recurrent=recurrent,
        experts=count(values, "num_experts", "num_local_experts", "n_routed_experts"),
        vocabulary=NEEDED.get(str(values.get("model_type")), ()),
    )


def _kinds(values: Mapping[str, Any], layers: int) -> tuple[int, int, int]:
    """How many layers keep all of their KV, KV of a window, and a state instead of KV."""
    pattern = values.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        _of_all(pattern, layers)
        return pattern.count(ATTENTION_LETTER), 0, pattern.count(MAMBA_LETTER)
    kinds = values.get("layer_types") or values.get("layers_block_type")
    if isinstance(kinds, list) and kinds and all(isinstance(kind, str) for kind in kinds):
        _of_all(kinds, layers)
        found = [_kind(kind) for kind in kinds[:MOST_LAYERS]]
        return found.count("full"), found.count("windowed"), found.count("recurrent")
    if every := count(values, "full_attention_interval"):
        return layers // every, 0, layers - layers // every
    if any(values.get(key) for key in RECURRENT):
        raise ConfigError("has recurrent layers, and does not say which")
    if every := count(values, "sliding_window_pattern"):  # Gemma 3: each n-th layer is full
        return layers // every, layers - layers // every, 0
    if values.get("sliding_window") and values.get("use_sliding_window", True):
        return 0, layers, 0
    return layers, 0, 0


def _of_all(kinds: Sequence[str], layers: int) -> None:
    if len(kinds) != layers:
        raise ConfigError(f"names the kinds of {len(kinds)} layers, and has {layers}")


def _kind(word: str) -> str:
    for kind, parts in WORDS.items():
        if any(part in word for part in parts):
            return kind
    raise ConfigError("has layers of an unknown kind")


def _kv_bytes(values: Mapping[str, Any]) -> int:
    """Of a value of the KV cache with `--kv-cache-dtype auto` (vLLM utils/torch_utils.py, 0.32.0).

    vLLM runs float32 checkpoints in 16 bits too, and of those that name an 8-bit cache only ModelOpt's count.
    """
    method = values.get("quantization_config")
    if not isinstance(method, dict) or not str(method.get("quant_method")).startswith("modelopt"):
        return 2
    inner = method.get("quantization")
    for part in (inner if isinstance(inner, dict) else method, method):
        asked = part.get("kv_cache_scheme") or part.get("kv_cache_quant_algo")
        if isinstance(asked, dict) and (asked.get("num_bits"), asked.get("type")) == (8, "float"):
            return 1
        if isinstance(asked, str) and asked.lower() == "fp8":
            return 1
    return 2


def _positions(values: Mapping[str, Any]) -> int:
    found = count(values, *LENGTHS)
    scaling = values.get("rope_scaling") or values.get("rope_parameters")
    if not isinstance(scaling, dict) or "gemma3" in str(values.get("model_type")):
        return found
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    factor = scaling.get("factor")
    if kind in SCALED_ALREADY or isinstance(factor, bool) or not isinstance(factor, int | float):
        return found
    return int(found * factor) if 1 <= factor < 2**20 else found


def _format(values: Mapping[str, Any]) -> str:
    """How the weights are stored: of a quantised model its method, else the dtype."""
    method = values.get("quantization_config")
    name = method.get("quant_method") if isinstance(method, dict) else None
    for value in (name, values.get("torch_dtype"), values.get("dtype")):
        if isinstance(value, str) and value.isprintable():
            return value[:32]
    return ""


def _active(values: Mapping[str, Any], layers: int, heads: int, hidden: int) -> int:
    """Parameters that each token of a prompt is multiplied with, without embeddings; 0 if unclear."""
    experts = count(values, "num_experts_per_tok", "experts_per_token", "moe_topk", "top_k_experts")
    shared = count(values, "n_shared_experts", "num_shared_experts")
    wide = count(values, "intermediate_size", "ffn_hidden_size", "n_inner")
    narrow = count(values, "moe_intermediate_size") or wide
    dense_layers = min(count(values, "first_k_dense_replace"), layers) if experts else layers
    if not wide and not narrow:
        return 0
    moe_layers = layers - dense_layers
    shared_wide = count(values, "shared_expert_intermediate_size") or shared * narrow
    forward = 3 * hidden * (dense_layers * wide + moe_layers * (experts * narrow + shared_wide))
    return layers * attention_of(values, heads, hidden) + forward
