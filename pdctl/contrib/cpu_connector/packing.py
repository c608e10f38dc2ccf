"""One block of vLLM's CPU KV cache -> where each element of K and of V lies in it.

vLLM packs K for the instruction set in use (with AVX-512: 32 tokens transposed; V is plain). The layout is no
interface, so vLLM's own kernel is asked: known numbers are written through it and looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Write = Callable[[Any, Any, Any, Any, Any], None]
"""Writes the keys and values of one block into a cache: (keys, values, key cache, value cache, slots)."""

_BASE = 128
"""Numbers are written one base-128 digit at a time: bfloat16 holds integers exactly only up to 256."""


def offsets(block: int, dim: int, dtype: Any, write: Write | None = None) -> tuple[Any, Any]:
    """Two [block, dim] tensors: where element (token, d) of K and of V lies in a head's flattened block."""
    return _invert(_written_numbers(block, dim, dtype, write or vllm_write(block, dim, dtype)), block, dim)


def vllm_write(block: int, dim: int, dtype: Any) -> Write:
    """The kernel that vLLM 0.32.0 itself writes its cache with."""
    from vllm import _custom_ops as ops
    from vllm.v1.attention.backends.cpu_attn import _get_attn_isa

    isa = _get_attn_isa(dtype, block, dim)

    def write(keys: Any, values: Any, key_cache: Any, value_cache: Any, slots: Any) -> None:
        ops.cpu_attn_reshape_and_cache(keys, values, key_cache, value_cache, slots, isa)

    return write


def _written_numbers(block: int, dim: int, dtype: Any, write: Write) -> Any:
    """Number every element of K, then of V; return the number found at each place of the block."""
    size = block * dim
    numbers = torch.arange(2 * size)
    found = torch.zeros(2 * size, dtype=torch.long)
    for power in range(_digits(2 * size)):
        digit = (numbers // _BASE**power % _BASE).to(dtype)
        cache = torch.zeros(1, 1, block, 2 * dim, dtype=dtype)
        keys, values = (half.view(block, 1, dim) for half in digit.split(size))
        key_cache, value_cache = cache.view(1, 1, 2 * block, dim).chunk(2, dim=2)
        write(keys, values, key_cache, value_cache, torch.arange(block))
        found += cache.view(-1).long() * _BASE**power
    return found


def _digits(count: int) -> int:
    digits = 1
    while _BASE**digits < count:
        digits += 1
    return digits


def _invert(found: Any, block: int, dim: int) -> tuple[Any, Any]:
    places = torch.arange(found.numel())
    if not torch.equal(found.sort().values, places):
        # A wrong layout moves wrong KV while every hit counter looks right: better no engine than that.
        raise RuntimeError(f"vLLM's packing of a block of {block} tokens by {dim} is not a permutation")
    where = torch.empty_like(found)
    where[found] = places
    keys, values = where.split(block * dim)
    return keys.view(block, dim), values.view(block, dim)
