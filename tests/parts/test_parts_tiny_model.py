import hashlib
import json
import math
import struct
from array import array
from itertools import pairwise
from pathlib import Path

import pytest

from pdctl.parts.tiny_model import TINY_MODEL, tiny_model_files, write_tiny_model

FILES = tiny_model_files()


def test_every_machine_makes_the_same_bytes() -> None:
    assert {n: (hashlib.sha256(d).hexdigest(), len(d)) for n, d in FILES.items()} == TINY_MODEL


def test_writing_returns_what_lies_there_and_leaves_nothing_else(tmp_path: Path) -> None:
    digests = write_tiny_model(tmp_path / "tiny")
    there = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in (tmp_path / "tiny").iterdir()}
    assert there == digests == {name: digest for name, (digest, _) in TINY_MODEL.items()}


def test_tensors_lie_end_to_end_aligned_and_have_the_shapes_of_the_config() -> None:
    header, body = safetensors()
    config = json.loads(FILES["config.json"])
    spans = sorted(tuple(t["data_offsets"]) for t in header.values())
    assert spans[0][0] == 0 and spans[-1][1] == len(body)
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    for tensor in header.values():
        start, end = tensor["data_offsets"]
        assert tensor["dtype"] == "F32" and end - start == 4 * math.prod(tensor["shape"])
    hidden, heads = config["hidden_size"], config["num_attention_heads"] * config["head_dim"]
    assert header["model.embed_tokens.weight"]["shape"] == [config["vocab_size"], hidden]
    assert header["model.layers.1.self_attn.o_proj.weight"]["shape"] == [hidden, heads]
    # lm_head, embeddings and last norm, and nine tensors a layer: what vLLM's Llama loads.
    assert len(header) == 3 + 9 * config["num_hidden_layers"]


def test_weights_are_spread_as_the_config_says() -> None:
    weights = tensor("model.embed_tokens.weight")
    mean = sum(weights) / len(weights)
    spread = math.sqrt(sum((w - mean) ** 2 for w in weights) / len(weights))
    assert abs(mean) < 0.005
    assert spread == pytest.approx(json.loads(FILES["config.json"])["initializer_range"], rel=0.01)


def test_the_vocabulary_is_closed_under_its_merges_and_holds_every_byte() -> None:
    tokenizer = json.loads(FILES["tokenizer.json"])
    vocabulary, merges = tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
    assert sorted(vocabulary.values()) == list(range(1024))
    known = {token for token, index in vocabulary.items() if index < 259}
    assert len([token for token in known if len(token) == 1]) == 256
    for left, right in merges:
        assert {left, right} <= known
        known.add(left + right)
    assert known == set(vocabulary)
    assert [t["content"] for t in tokenizer["added_tokens"]] == ["<pad>", "<bos>", "<eos>"]


def test_only_printable_characters_can_be_the_likeliest_token() -> None:
    vocabulary = json.loads(FILES["tokenizer.json"])["model"]["vocab"]
    head, hidden = tensor("lm_head.weight"), 128
    speakable = {t for t, i in vocabulary.items() if any(head[i * hidden : (i + 1) * hidden])}
    text = "".join(speakable).replace("\u0120", " ")
    assert text.isascii() and text.isprintable()
    assert len(speakable) == 1024 - 3 - 256 + 95


def test_chat_has_a_template_that_ends_where_the_assistant_speaks() -> None:
    template = json.loads(FILES["tokenizer_config.json"])["chat_template"]
    assert "add_generation_prompt" in template and "message['content']" in template


def safetensors() -> tuple[dict[str, dict], bytes]:
    data = FILES["model.safetensors"]
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0
    header = json.loads(data[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    return header, data[8 + length :]


def tensor(name: str) -> array:
    header, body = safetensors()
    start, end = header[name]["data_offsets"]
    return array("f", struct.unpack(f"<{(end - start) // 4}f", body[start:end]))
