"""vLLM's own kernel for CPU caches -> the layout of a block, as index tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .packing import places


def offsets(block: int, dim: int, dtype: Any) -> tuple[Any, Any]:
    """Two [block, dim] tensors: where element (token, d) of K and of V lies in a head's flattened block."""
    keys, values = places(lambda elements: _written(elements, block, dim, dtype), block, dim)
    return torch.tensor(keys), torch.tensor(values)


def _written(elements: Sequence[int], block: int, dim: int, dtype: Any) -> list[int]:
    """Write K and V of one block with the call that vLLM 0.32.0 makes itself (cpu_attn.py)."""
    from vllm import _custom_ops as ops
    from vllm.v1.attention.backends.cpu_attn import _get_attn_isa

    keys, values = (
        half.view(block, 1, dim) for half in torch.tensor(elements, dtype=dtype).split(block * dim)
    )
    cache = torch.zeros(1, 1, block, 2 * dim, dtype=dtype)
    key_cache, value_cache = cache.view(1, 1, 2 * block, dim).chunk(2, dim=2)
    isa = _get_attn_isa(dtype, block, dim)
    ops.cpu_attn_reshape_and_cache(keys, values, key_cache, value_cache, torch.arange(block), isa)
    written: list[int] = cache.view(-1).long().tolist()
    return written
