"""Prompt tokens -> text, by pure arithmetic: the same model and tokens give the same text on every instance.

What stands for the KV cache of a prefix is one number, folded over its tokens. Whoever holds the number of a
prefix can go on from there, as an engine can from the KV; whoever holds a wrong one writes another text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

EOS = 2
VOCABULARY = 262_144  # more than any real vocabulary, so that token prompts of every tokenizer are taken

_FIRST_BYTE = 3  # 0, 1, 2 are special and print nothing
_FIRST_PAIR = _FIRST_BYTE + 256
_END_OF_PAIRS = _FIRST_PAIR + 256 * 256
_PRIME = 2**61 - 1
_FACTOR = 0x0F0E_1D2C_3B4A_5968
_MASK = 2**64 - 1


def encode(text: str) -> list[int]:
    """Token ids of `text`: one for two bytes of UTF-8."""
    data = text.encode()
    ids = [_pair(first, second) for first, second in zip(data[::2], data[1::2], strict=False)]
    return ids if len(data) % 2 == 0 else [*ids, _FIRST_BYTE + data[-1]]


def decode(ids: Iterable[int]) -> str:
    """The text of `ids`; ids beyond the byte pairs have no text of their own and print as <id>."""
    return b"".join(map(_bytes, ids)).decode(errors="replace")


def empty_state(model: str) -> int:
    """The KV of no tokens: models differ from each other here."""
    return int.from_bytes(hashlib.blake2b(model.encode(), digest_size=8).digest(), "big") % _PRIME


def extend(state: int, tokens: Iterable[int]) -> int:
    """The KV after `tokens` more tokens."""
    for token in tokens:
        state = (state * _FACTOR + token + 1) % _PRIME
    return state


def garbled(state: int) -> int:
    """What a broken transfer makes of it."""
    return state ^ 0x5A5A5A


def next_token(state: int, *, eos_every: int, may_end: bool) -> int:
    """The one (greedy) token that follows."""
    mixed = _mixed(state)
    if may_end and mixed % eos_every == 0:
        return EOS
    return _WRITTEN[(mixed >> 20) % len(_WRITTEN)]


def _pair(first: int, second: int) -> int:
    return _FIRST_PAIR + first * 256 + second


def _syllables() -> Sequence[int]:
    """Readable output: consonant and vowel, and now and then a consonant that closes a word."""
    syllables = [_pair(ord(c), ord(v)) for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
    return (*syllables, *(_pair(ord(c), ord(" ")) for c in "lmnrstlmnrstlmnrst"))


_WRITTEN = _syllables()


def _bytes(token: int) -> bytes:
    if _FIRST_PAIR <= token < _END_OF_PAIRS:
        return bytes(divmod(token - _FIRST_PAIR, 256))
    if _FIRST_BYTE <= token < _FIRST_PAIR:
        return bytes((token - _FIRST_BYTE,))
    return b"" if token < _FIRST_BYTE else f"<{token}>".encode()


def _mixed(state: int) -> int:
    """Neighbouring states give unrelated numbers (the finaliser of MurmurHash3)."""
    state = (state ^ (state >> 33)) * 0xFF51AFD7ED558CCD & _MASK
    state = (state ^ (state >> 33)) * 0xC4CEB9FE1A85EC53 & _MASK
    return state ^ (state >> 33)
