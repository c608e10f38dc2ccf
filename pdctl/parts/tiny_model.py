"""A seed -> a tiny Llama with random weights and its tokenizer, byte for byte the same on every machine.

It needs no download and no machine-learning package. Its text means nothing, but it depends on the prompt and
does not repeat itself, so a KV cache that was moved wrongly shows in greedy output.
"""

from __future__ import annotations

import hashlib
import json
import struct
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from pdctl.parts.tiny_tokenizer import BOS, EOS, PAD, VOCABULARY, silent_tokens, tokenizer_files

# File -> sha256 and size of what `tiny_model_files` makes, for those who only compare.
TINY_MODEL: Mapping[str, tuple[str, int]] = {
    "config.json": ("3cb4ca516216fba6940a8de8eabfd715a5b511979576c968296b6bbca0f89c1f", 572),
    "generation_config.json": ("f8d6d5d8d8521d521df1f07e83011e7788931f54f69f21673a118e3b94729e1e", 66),
    "tokenizer.json": ("4e3037c60b6b2dbd7969bcc22490fb9092fce7c4fd61829d7b643cb75ad64141", 38443),
    "tokenizer_config.json": ("a5e68d1783d9517f197a75935179fef7c4e7d212e13992c0db770013715f0a66", 312),
    "model.safetensors": ("7508b7b89741fc199a847a265bb08fcc84b96907cd8caa7e10084efc1b8a9961", 2364072),
}

_HIDDEN = 128
_INTERMEDIATE = 256
_LAYERS = 2
_HEADS = 2
_KV_HEADS = 2
_HEAD_DIM = 64
_MAX_POSITIONS = 8192
_STD = 0.3  # wide enough that greedy text neither repeats nor ignores the prompt; 0.02 does both
_SEED = 7
_DATA_START = struct.calcsize("<Q")


def write_tiny_model(out: Path) -> Mapping[str, str]:
    """Write the model's files into `out`; return the sha256 of each."""
    out.mkdir(parents=True, exist_ok=True)
    files = tiny_model_files()
    for name, data in files.items():
        partial = out / f".{name}.part"
        partial.write_bytes(data)
        partial.replace(out / name)
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def tiny_model_files() -> Mapping[str, bytes]:
    """File name -> content, as Hugging Face lays out a model."""
    documents = {"config.json": _config(), "generation_config.json": _generation_config()}
    files = {name: (json.dumps(value, indent=2) + "\n").encode() for name, value in documents.items()}
    return {**files, **tokenizer_files(_MAX_POSITIONS), "model.safetensors": _safetensors()}


def _config() -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "bos_token_id": BOS,
        "dtype": "float32",
        "eos_token_id": EOS,
        "head_dim": _HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": _HIDDEN,
        "initializer_range": _STD,
        "intermediate_size": _INTERMEDIATE,
        "max_position_embeddings": _MAX_POSITIONS,
        "mlp_bias": False,
        "num_attention_heads": _HEADS,
        "num_hidden_layers": _LAYERS,
        "num_key_value_heads": _KV_HEADS,
        "pad_token_id": PAD,
        "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "use_cache": True,
        "vocab_size": VOCABULARY,
    }


def _generation_config() -> dict[str, Any]:
    return {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}


def _safetensors() -> bytes:
    """The format: length of the header, JSON header with each tensor's place, then the tensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    random, place, body = Random(_SEED), 0, bytearray()
    for name, shape in _shapes():
        data = _tensor(name, shape, random)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [place, place + len(data)]}
        place += len(data)
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors start at a multiple of 8
    return struct.pack("<Q", len(text)) + text + bytes(body)


def _shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    queries, keys = _HEADS * _HEAD_DIM, _KV_HEADS * _HEAD_DIM
    yield "lm_head.weight", (VOCABULARY, _HIDDEN)
    yield "model.embed_tokens.weight", (VOCABULARY, _HIDDEN)
    for layer in (f"model.layers.{index}" for index in range(_LAYERS)):
        yield f"{layer}.input_layernorm.weight", (_HIDDEN,)
        yield f"{layer}.mlp.down_proj.weight", (_HIDDEN, _INTERMEDIATE)
        yield f"{layer}.mlp.gate_proj.weight", (_INTERMEDIATE, _HIDDEN)
        yield f"{layer}.mlp.up_proj.weight", (_INTERMEDIATE, _HIDDEN)
        yield f"{layer}.post_attention_layernorm.weight", (_HIDDEN,)
        yield f"{layer}.self_attn.k_proj.weight", (keys, _HIDDEN)
        yield f"{layer}.self_attn.o_proj.weight", (_HIDDEN, queries)
        yield f"{layer}.self_attn.q_proj.weight", (queries, _HIDDEN)
        yield f"{layer}.self_attn.v_proj.weight", (keys, _HIDDEN)
    yield "model.norm.weight", (_HIDDEN,)


def _tensor(name: str, shape: tuple[int, ...], random: Random) -> bytes:
    if len(shape) == 1:
        return struct.pack("<f", 1.0) * shape[0]  # norms
    weights = _weights(shape[0] * shape[1], random)
    if name == "lm_head.weight":
        for token in silent_tokens():
            weights[token * _HIDDEN : (token + 1) * _HIDDEN] = array("f", [0.0]) * _HIDDEN
    return struct.pack(f"<{len(weights)}f", *weights)


def _weights(count: int, random: Random) -> array[float]:
    """Nearly normal: the sum of four uniform numbers, in exact arithmetic.

    `Random.gauss` calls the C library's log and cos, whose last bit differs between machines.
    """
    draws = struct.unpack(f"<{4 * count}H", random.randbytes(8 * count))
    scale = (
        _STD * 3**0.5 / 65536
    )  # four uniforms have a standard deviation of 1/sqrt(3); the square root is exact
    sums = (a + b + c + d - 131070 for a, b, c, d in zip(*(draws[i::4] for i in range(4)), strict=True))
    return array("f", (total * scale for total in sums))
