"""A way to write one block of a KV cache -> where each element of K and of V lies in it. Pure.

vLLM packs K for the instruction set in use (with AVX-512: 32 tokens transposed; V is plain). The layout is no
interface, so vLLM's own kernel is asked: known numbers are written through it and looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Write = Callable[[Sequence[int]], Sequence[int]]
"""Takes the elements of K, then those of V, token by token; returns the block's memory afterwards."""

Places = list[list[int]]
"""[token][element of the head] -> index into the block's memory."""

_BASE = 128
"""Numbers are written one base-128 digit at a time: bfloat16 holds integers exactly only up to 256."""


def places(write: Write, block: int, dim: int) -> tuple[Places, Places]:
    """Of K and of V, in a block of `block` tokens by `dim` elements."""
    where = _inverse(_numbers_found(write, 2 * block * dim), block, dim)
    rows = [where[start : start + dim] for start in range(0, len(where), dim)]
    return rows[:block], rows[block:]


def _numbers_found(write: Write, count: int) -> list[int]:
    """Number every element; return the number found at each index of the block."""
    found = [0] * count
    weight = 1
    while weight < count:
        digits = write([number // weight % _BASE for number in range(count)])
        found = [number + digit * weight for number, digit in zip(found, digits, strict=True)]
        weight *= _BASE
    return found


def _inverse(found: list[int], block: int, dim: int) -> list[int]:
    if sorted(found) != list(range(len(found))):
        # A wrong layout moves wrong KV while every hit counter looks right: better no engine than that.
        raise RuntimeError(f"vLLM's packing of a block of {block} tokens by {dim} is not a permutation")
    where = [0] * len(found)
    for index, number in enumerate(found):
        where[number] = index
    return where
