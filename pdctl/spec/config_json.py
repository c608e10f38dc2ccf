"""config.json of a Hugging Face model -> what sets the size of its KV cache and the work of a token.

Field names as transformers writes them; the folder may be anybody's, so nothing in it is taken on trust.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pdctl.knowledge.models import KnownModel
from pdctl.knowledge.vocabularies import NEEDED

MAX_BYTES = 4 * 2**20  # the largest of 117 models' files has 60 KB
MOST = 2**31  # of any count; Python's integers know no end
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


class ConfigError(ValueError):
    """Why a config.json says nothing, in words that follow its name."""


def read_config(raw: bytes) -> KnownModel:
    """The model that the file describes, without its weights' size. Raises ConfigError."""
    values = _values(raw)
    for key in UNEVEN:
        if values.get(key):
            raise ConfigError(f"has layers of different shapes (`{key}`)")
    layers = _count(values, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    heads = _count(values, "num_attention_heads", "n_head", "n_heads")
    hidden = _count(values, "hidden_size", "n_embd", "d_model")
    if not layers or not heads or not hidden:
        missing = "num_hidden_layers" if not layers else "num_attention_heads" if not heads else "hidden_size"
        raise ConfigError(f"has no `{missing}`")
    if layers > MOST_LAYERS:
        raise ConfigError(f"has more than {MOST_LAYERS} layers")
    full, windowed, recurrent = _kinds(values, layers)
    kv_heads, head_dim, mla = _shape(values, heads, hidden)
    return KnownModel(
        layers=full + windowed,
        kv_heads=kv_heads,
        head_dim=head_dim,
        bytes_per_value=2,  # vLLM runs float32 checkpoints in 16 bits too, unless it is told otherwise
        max_model_len=_positions(values),
        heads=heads,
        hidden=hidden,
        active=0 if recurrent else _active(values, layers, heads, hidden),
        weights=_format(values),
        mla=mla,
        windowed=windowed,
        window=_count(values, "sliding_window", "attention_chunk_size") if windowed else 0,
        recurrent=recurrent,
        experts=_count(values, "num_experts", "num_local_experts", "n_routed_experts"),
        vocabulary=NEEDED.get(str(values.get("model_type")), ()),
    )


def _values(raw: bytes) -> dict[str, Any]:
    """The mapping; of a multimodal model the text part."""
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"is larger than {MAX_BYTES // 2**20} MiB")
    try:
        found = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8") from None
    except RecursionError:
        raise ConfigError("is nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"is not JSON ({_short(error)})") from None
    if not isinstance(found, dict):
        raise ConfigError("is not a JSON object")
    for key in ("text_config", "llm_config", "language_config"):
        inner = found.get(key)
        if isinstance(inner, dict):
            return found | inner
    return found


def _short(error: ValueError) -> str:
    return str(error).split(":", 1)[0][:80]


def _count(values: Mapping[str, Any], *names: str) -> int:
    """The first of the names that is there; 0 for none."""
    for name in names:
        value = values.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST:
            raise ConfigError(f"has a `{name}` that is no count")
        return value
    return 0


def _shape(values: Mapping[str, Any], heads: int, hidden: int) -> tuple[int, int, bool]:
    """KV heads, size of each, and whether they are one latent vector with its rotary part (MLA)."""
    if rank := _count(values, "kv_lora_rank"):
        return 1, rank + _count(values, "qk_rope_head_dim"), True
    kv_heads = _count(values, "num_key_value_heads", "n_head_kv", "num_kv_heads") or heads
    if values.get("multi_query") is True and not values.get("new_decoder_architecture"):
        kv_heads = 1  # Falcon and GPT-BigCode: one head for all, whatever else is said (vLLM config/model.py)
    # gpt-oss: hidden_size / num_attention_heads would be 45, its head_dim is 64.
    head_dim = _count(values, "head_dim", "attention_head_dim") or hidden // heads
    if not head_dim:
        raise ConfigError("has more attention heads than `hidden_size`")
    return kv_heads, head_dim, False


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
    if every := _count(values, "full_attention_interval"):
        return layers // every, 0, layers - layers // every
    if any(values.get(key) for key in RECURRENT):
        raise ConfigError("has recurrent layers, and does not say which")
    if every := _count(values, "sliding_window_pattern"):  # Gemma 3: each n-th layer is full
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


def _positions(values: Mapping[str, Any]) -> int:
    found = _count(values, *LENGTHS)
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
    experts = _count(values, "num_experts_per_tok", "experts_per_token", "moe_topk", "top_k_experts")
    shared = _count(values, "n_shared_experts", "num_shared_experts")
    wide = _count(values, "intermediate_size", "ffn_hidden_size", "n_inner")
    narrow = _count(values, "moe_intermediate_size") or wide
    dense_layers = min(_count(values, "first_k_dense_replace"), layers) if experts else layers
    if not wide and not narrow:
        return 0
    moe_layers = layers - dense_layers
    shared_wide = _count(values, "shared_expert_intermediate_size") or shared * narrow
    forward = 3 * hidden * (dense_layers * wide + moe_layers * (experts * narrow + shared_wide))
    return layers * _attention(values, heads, hidden) + forward


def _attention(values: Mapping[str, Any], heads: int, hidden: int) -> int:
    """Parameters of one attention layer: queries and output, keys and values."""
    kv_heads, head_dim, mla = _shape(values, heads, hidden)
    if not mla:
        return 2 * hidden * head_dim * (heads + kv_heads)
    rope, nope = _count(values, "qk_rope_head_dim"), _count(values, "qk_nope_head_dim")
    value, rank = _count(values, "v_head_dim") or nope, head_dim - rope
    query = _count(values, "q_lora_rank")
    queries = query * (hidden + heads * (nope + rope)) if query else hidden * heads * (nope + rope)
    return queries + hidden * head_dim + rank * heads * (nope + value) + heads * value * hidden
