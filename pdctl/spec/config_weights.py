"""Values of a config.json -> bytes of the weights that its engines load, where no file tells their size.

An estimate of what surely is there: layer norms, biases, vision towers and layers for speculation are left
out, some tenths of a percent of large text models. Sources: the model classes of transformers 4.57.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pdctl.spec.config_values import ConfigError, attention_of, count

# Two matrices in their MLP, where others have a third for the gate.
UNGATED = frozenset(
    {"falcon", "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "mpt", "nemotron", "opt", "persimmon", "phi"}
    | {"bloom", "codegen", "starcoder2"}
)
# Whose experts alone are quantised (transformers integrations/mxfp4.py): four bits, and a byte for 32 values.
MXFP4, MXFP4_BITS = "mxfp4", 4.25
# Bits of a weight by methods that always have the same, scales included where they matter.
METHOD_BITS = {"fp8": 8.0, "fbgemm_fp8": 8.0, "modelopt": 8.0, "modelopt_fp4": 4.5}
MODELOPT_BITS = {"FP8": 8.0, "NVFP4": 4.5}  # `quant_algo`; NVFP4 has a byte of scale for 16 values
GROUPED = frozenset({"awq", "gptq", "auto-round", "awq_marlin", "gptq_marlin"})  # `bits` and `group_size`
SCALE_BITS = 16
PLAIN_BITS = {"float32": 32, "float": 32}  # all others: 16
INDEXED = re.compile(r"layers\.(\d{1,4})\.")


@dataclass(frozen=True)
class Parts:
    """Parameters of the parts that are quantised apart."""

    attention: int
    experts: int
    rest: int  # dense MLPs and shared experts
    tables: int  # embeddings, output and routers, which stay in the model's own dtype


def config_weights(values: Mapping[str, Any], layers: int, heads: int, hidden: int, recurrent: int) -> int:
    """Bytes of all weights together; 0 where the file does not tell."""
    try:
        parts = _parts(values, layers, heads, hidden, recurrent)
        return round(_bits(values, parts, layers) / 8) if parts else 0
    except ConfigError:
        return 0


def _parts(values: Mapping[str, Any], layers: int, heads: int, hidden: int, recurrent: int) -> Parts | None:
    wide = count(values, "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim")
    narrow = count(values, "moe_intermediate_size") or wide
    vocabulary = count(values, "vocab_size")
    state = _state(values, hidden) if recurrent else 0
    if not (wide or narrow) or not vocabulary or (recurrent and not state):
        return None
    matrices = 2 if str(values.get("model_type")) in UNGATED else 3
    experts = count(values, "num_experts", "num_local_experts", "n_routed_experts")
    mixed = _mixed(values, layers) if experts else 0
    # Llama 4 says how wide its dense layers are apart, and has one shared expert without saying so.
    plain = count(values, "intermediate_size_mlp")
    number = count(values, "n_shared_experts", "num_shared_experts") or (1 if plain else 0)
    shared = count(values, "shared_expert_intermediate_size") or number * narrow
    dense = plain or wide
    tied = values.get("tie_word_embeddings", True) is not False
    return Parts(
        attention=(layers - recurrent) * attention_of(values, heads, hidden) + recurrent * state,
        experts=mixed * experts * matrices * hidden * narrow,
        rest=matrices * hidden * ((layers - mixed) * dense + mixed * shared),
        tables=vocabulary * hidden * (1 if tied else 2) + mixed * experts * hidden,
    )


def _state(values: Mapping[str, Any], hidden: int) -> int:
    """Of a layer of linear attention (Qwen3-Next): queries, keys, values and gate in, values out."""
    keys = count(values, "linear_num_key_heads") * count(values, "linear_key_head_dim")
    inner = count(values, "linear_num_value_heads") * count(values, "linear_value_head_dim")
    return hidden * (2 * keys + 3 * inner) if keys and inner else 0


def _mixed(values: Mapping[str, Any], layers: int) -> int:
    """How many layers have experts."""
    named = values.get("mlp_only_layers")
    dense = len({each for each in named if isinstance(each, int)}) if isinstance(named, list) else 0
    every = count(values, "decoder_sparse_step", "interleave_moe_layer_step") or 1
    frequency = values.get("moe_layer_freq")
    if isinstance(frequency, int) and not isinstance(frequency, bool) and frequency > 1:
        every = frequency
    first = min(layers, count(values, "first_k_dense_replace"))
    return max(0, (layers - first) // every - dense)


def _bits(values: Mapping[str, Any], parts: Parts, layers: int) -> float:
    """Of all parts; 0 where the quantisation is not known."""
    plain = PLAIN_BITS.get(str(values.get("torch_dtype") or values.get("dtype")), 16)
    method = values.get("quantization_config")
    if not isinstance(method, dict) or not method:
        return plain * (parts.attention + parts.experts + parts.rest + parts.tables)
    if method.get("quant_method") == MXFP4:
        return MXFP4_BITS * parts.experts + plain * (parts.attention + parts.rest + parts.tables)
    packed = _method_bits(method)
    kept = _kept(method, "attn", layers) * parts.attention + _kept(method, "shared", layers) * parts.rest
    packable = parts.attention + parts.experts + parts.rest - kept
    return packed * packable + plain * (kept + parts.tables) if packed else 0.0


def _method_bits(method: Mapping[str, Any]) -> float:
    name = str(method.get("quant_method"))
    if name in GROUPED:
        return _grouped(method.get("bits"), method.get("group_size"))
    if name == "compressed-tensors":
        return _compressed(method.get("config_groups"))
    if name == "bitsandbytes":
        return (
            8.0 if method.get("load_in_8bit") is True else 4.5 if method.get("load_in_4bit") is True else 0.0
        )
    if name == "modelopt" and isinstance(algorithm := method.get("quant_algo"), str):
        return MODELOPT_BITS.get(algorithm, 0.0)
    return METHOD_BITS.get(name, 0.0)


def _compressed(groups: object) -> float:
    """Where groups differ, the least."""
    if not isinstance(groups, dict):
        return 0.0
    found = [group.get("weights") for group in groups.values() if isinstance(group, dict)]
    bits = [
        _grouped(each.get("num_bits"), each.get("group_size")) for each in found if isinstance(each, dict)
    ]
    return min(bits, default=0.0)


def _grouped(bits: object, group: object) -> float:
    """`bits` of each value, and a scale for each group of them."""
    if not isinstance(bits, int) or isinstance(bits, bool) or not 1 <= bits <= 16:
        return 0.0
    grouped = isinstance(group, int) and not isinstance(group, bool) and group >= 8
    return bits + (SCALE_BITS / group if grouped and isinstance(group, int) else 0.0)


def _kept(method: Mapping[str, Any], part: str, layers: int) -> float:
    """Share of the layers whose `part` stays as it is: named for all of them, or one by one."""
    names = method.get("modules_to_not_convert") or method.get("ignore") or method.get("ignored_layers")
    if not isinstance(names, list):
        return 0.0
    numbers = [INDEXED.search(name) for name in names[:100_000] if isinstance(name, str) and part in name]
    if any(number is None for number in numbers):
        return 1.0
    return min(1.0, len({number[1] for number in numbers if number}) / layers)
