"""The tiny model's tokenizer: byte-level BPE of 1,024 tokens, made of letter pairs, not trained."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import product
from string import ascii_lowercase
from typing import Any

VOCABULARY = 1024
PAD, BOS, EOS = 0, 1, 2

_SPECIAL = ("<pad>", "<bos>", "<eos>")
_SPACE = "\u0120"  # how byte-level BPE writes a space
_STARTS = "tsaiwbc"
_ENDINGS = ("he", "in", "an", "on", "er", "re", "at", "is", "ou")
_CHAT_TEMPLATE = (
    "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def tokenizer_files(max_length: int) -> Mapping[str, bytes]:
    """The tokenizer as the tokenizers library reads it, and its configuration with a chat template."""
    config = {
        "bos_token": _SPECIAL[BOS],
        "chat_template": _CHAT_TEMPLATE,
        "eos_token": _SPECIAL[EOS],
        "model_max_length": max_length,
        "pad_token": _SPECIAL[PAD],
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    documents = {"tokenizer.json": _tokenizer(), "tokenizer_config.json": config}
    return {name: (json.dumps(value, indent=1) + "\n").encode() for name, value in documents.items()}


def silent_tokens() -> Iterable[int]:
    """Tokens the model should not say: specials, and bytes that are not a printable ASCII character.

    A lone byte of a longer character makes a server hold text back until the rest comes: here it never does.
    """
    speakable = {len(_SPECIAL) + index for index, byte in enumerate(_byte_order()) if 0x20 <= byte < 0x7F}
    return [token for token in range(len(_SPECIAL) + 256) if token not in speakable]


def _tokenizer() -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": index, "content": text, **flags} for index, text in enumerate(_SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": _model(),
    }


def _model() -> dict[str, Any]:
    merges = _merges()
    tokens = [*_SPECIAL, *(_character(byte) for byte in _byte_order()), *(a + b for a, b in merges)]
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token: index for index, token in enumerate(tokens)},
        "merges": [list(pair) for pair in merges],
    }


def _merges() -> list[tuple[str, str]]:
    """In order of rank: a space with a letter (26), two letters (676), a space and three letters (63)."""
    starts = [(_SPACE, letter) for letter in ascii_lowercase]
    pairs = list(product(ascii_lowercase, ascii_lowercase))
    words = [(_SPACE + letter, ending) for letter, ending in product(_STARTS, _ENDINGS)]
    return [*starts, *pairs, *words]


def _byte_order() -> list[int]:
    """Bytes that stand for themselves first, in the order of the characters they are written as."""
    return sorted(range(256), key=lambda byte: ord(_character(byte)))


def _character(byte: int) -> str:
    """The character that stands for a byte: the byte itself if it can be seen, else the next from 256 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    if byte in visible:
        return chr(byte)
    return chr(256 + sum(other not in visible for other in range(byte)))
