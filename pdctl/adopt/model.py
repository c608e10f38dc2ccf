"""Deployment -> `model` of the draft: id or folder, name in requests, length, and its KV shape if unknown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pdctl.adopt.deployment import Deployment
from pdctl.adopt.engine import Engine
from pdctl.adopt.note import MODEL, Kind, Note
from pdctl.adopt.places import most_common
from pdctl.adopt.words import whole_number
from pdctl.desired.layout import MODELS as OUR_MODELS
from pdctl.knowledge.models import MODELS, TINY
from pdctl.spec.values import MODEL_ID

HUB = re.compile(r"/models--(?P<owner>[^/]+?)--(?P<name>[^/]+)(?:/|$)")
CPU_DEFAULT = ("dtype", "float32", True)  # what pdctl gives the CPU engine anyway
KV_BYTES = {"float32": 4, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}


def model_values(deployment: Deployment) -> tuple[dict[str, Any], list[Note]]:
    word = most_common(engine.model for engine in deployment.engines) or ""
    values, notes = _identity(deployment, word)
    served = most_common(engine.command.text("served-model-name", word) for engine in deployment.engines)
    if served and served != values["id"]:
        values["served_name"] = served
    for flag, field in (("revision", "revision"), ("dtype", "dtype")):
        given = most_common(t for e in deployment.engines if (t := e.command.text(flag)))
        if given and given != "auto" and (flag, given, deployment.engines[0].cpu) != CPU_DEFAULT:
            values[field] = given
    longest = most_common(t for e in deployment.engines if (t := e.command.text("max-model-len")))
    length = whole_number(longest or "")
    config = _config(deployment, word)
    known = MODELS.get(values["id"])
    if length is None and known is None:
        length = _first_number(config, "max_position_embeddings", "seq_length", "n_positions")
    if length and not (known and known.max_model_len == length):
        values["max_model_len"] = length
    return values | _kv(values["id"], config, deployment.engines[0]), notes


def _identity(deployment: Deployment, word: str) -> tuple[dict[str, Any], list[Note]]:
    """The id, and the folder that the weights are loaded from if that is how the engines are started."""
    if not word.startswith("/"):
        return {"id": word}, list(_own_copy(deployment, word))
    if word.rstrip("/") == f"{OUR_MODELS}/tiny":
        return {"id": TINY}, []
    if hub := HUB.search(word):
        return {"id": f"{hub['owner']}/{hub['name']}", "path": word}, []
    served = deployment.engines[0].command.text("served-model-name")
    if served in MODELS or ("/" in served and re.fullmatch(MODEL_ID, served)):
        return {"id": served, "path": word}, []
    last = word.rstrip("/").rpartition("/")[2]
    kv = _shape(_config(deployment, word))
    alike = (name for name in MODELS if name.rpartition("/")[2].lower() == last.lower())
    known = next((name for name in alike if kv is None or kv == _known_shape(name)), None)
    found = known or (last if re.fullmatch(MODEL_ID, last) else "model")
    text = "the id is taken from the folder's name; it sizes the KV buffers if pdctl knows the model"
    return {"id": found, "path": word}, [Note(Kind.GUESS, MODEL, "model", text, word)]


def _own_copy(deployment: Deployment, word: str) -> Iterator[Note]:
    """Weights that were loaded by name are not where pdctl's engines look."""
    holders = [
        e for e in deployment.engines if word in e.process.models and "HF_HOME" not in e.process.environment
    ]
    if holders:
        text = f"the weights are in the Hugging Face cache of {holders[0].process.user or 'another user'};"
        advice = " pdctl's engines load their own copy, unless `path` names a folder that they can read"
        yield Note(Kind.DIFFERENT, MODEL, "model", text + advice)


def _config(deployment: Deployment, word: str) -> dict[str, Any]:
    """The model's config.json as any host has it; the text part of a multimodal one."""
    for engine in deployment.engines:
        try:
            config = json.loads(engine.process.models.get(word, ""))
        except ValueError:
            continue
        if isinstance(config, dict):
            inner = config.get("text_config")
            return config | inner if isinstance(inner, dict) else config
    return {}


def _kv(model: str, config: dict[str, Any], engine: Engine) -> dict[str, Any]:
    """`kv` of a model that pdctl does not know, from its config.json."""
    if model in MODELS or engine.connector != "lmcache":
        return {}
    shape = _shape(config)
    if shape is None:
        return {}
    kv: dict[str, Any] = dict(zip(("layers", "kv_heads", "head_dim"), shape, strict=True))
    if rank := _first_number(config, "kv_lora_rank"):  # DeepSeek: one latent vector and the rotary part
        kv |= {
            "kv_heads": 1,
            "head_dim": rank + (_first_number(config, "qk_rope_head_dim") or 0),
            "mla": True,
        }
    dtype = engine.command.text("kv-cache-dtype", "auto")
    weights = engine.command.text("dtype", str(config.get("torch_dtype") or config.get("dtype") or ""))
    size = KV_BYTES.get(weights if dtype == "auto" else dtype, 2)
    return {"kv": kv | ({"bytes_per_value": size} if size != 2 else {})}


def _shape(config: dict[str, Any]) -> tuple[int, int, int] | None:
    """Layers, KV heads and head size, as config.json of the common families names them."""
    layers = _first_number(config, "num_hidden_layers", "n_layer")
    heads = _first_number(config, "num_attention_heads", "n_head")
    hidden = _first_number(config, "hidden_size", "n_embd")
    head_dim = _first_number(config, "head_dim") or (hidden // heads if hidden and heads else None)
    kv_heads = _first_number(config, "num_key_value_heads") or heads
    return (layers, kv_heads, head_dim) if layers and kv_heads and head_dim else None


def _known_shape(model: str) -> tuple[int, int, int]:
    return MODELS[model].layers, MODELS[model].kv_heads, MODELS[model].head_dim


def _first_number(config: dict[str, Any], *names: str) -> int | None:
    return next((config[name] for name in names if _is_count(config.get(name))), None)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value > 0
