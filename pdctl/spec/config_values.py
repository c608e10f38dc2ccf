"""Bytes of a config.json -> its values, counts that can be trusted, and the shape of its attention.

Field names as transformers writes them; the folder may be anybody's, so nothing in it is taken on trust.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_BYTES = 4 * 2**20  # the largest of 117 models' files has 60 KB
MOST = 2**31  # of any count; Python's integers know no end


class ConfigError(ValueError):
    """Why a config.json says nothing, in words that follow its name."""


def values_of(raw: bytes) -> dict[str, Any]:
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


def count(values: Mapping[str, Any], *names: str) -> int:
    """The first of the names that is there; 0 for none."""
    for name in names:
        value = values.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST:
            raise ConfigError(f"has a `{name}` that is no count")
        return value
    return 0


def shape_of(values: Mapping[str, Any], heads: int, hidden: int) -> tuple[int, int, bool]:
    """KV heads, size of each, and whether they are one latent vector with its rotary part (MLA)."""
    if rank := count(values, "kv_lora_rank"):
        return 1, rank + count(values, "qk_rope_head_dim"), True
    kv_heads = count(values, "num_key_value_heads", "n_head_kv", "num_kv_heads") or heads
    if values.get("multi_query") is True and not values.get("new_decoder_architecture"):
        kv_heads = 1  # Falcon and GPT-BigCode: one head for all, whatever else is said (vLLM config/model.py)
    # gpt-oss: hidden_size / num_attention_heads would be 45, its head_dim is 64.
    head_dim = count(values, "head_dim", "attention_head_dim") or hidden // heads
    if not head_dim:
        raise ConfigError("has more attention heads than `hidden_size`")
    return kv_heads, head_dim, False


def attention_of(values: Mapping[str, Any], heads: int, hidden: int) -> int:
    """Parameters of one attention layer: queries and output, keys and values."""
    kv_heads, head_dim, mla = shape_of(values, heads, hidden)
    if not mla:
        return 2 * hidden * head_dim * (heads + kv_heads)
    rope, nope = count(values, "qk_rope_head_dim"), count(values, "qk_nope_head_dim")
    value, rank = count(values, "v_head_dim") or nope, head_dim - rope
    query = count(values, "q_lora_rank")
    queries = query * (hidden + heads * (nope + rope)) if query else hidden * heads * (nope + rope)
    return queries + hidden * head_dim + rank * heads * (nope + value) + heads * value * hidden
