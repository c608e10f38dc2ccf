"""vLLM's paged CPU cache <-> LMCache's memory objects, for LMCache inside the engine (PD mode).

LMCache 0.5.6 has such a connector for CUDA, XPU, MUSA and HPU; on CPU its factory raises "No supported cpu
connector found" and vLLM goes on without any transfer. Everything else of its PD path has a CPU branch.
"""

from __future__ import annotations

from typing import Any

import torch
from lmcache.utils import EngineType
from lmcache.v1 import gpu_connector
from lmcache.v1.gpu_connector.gpu_connectors import GPUConnectorInterface
from lmcache.v1.memory_management import MemoryFormat

from .kernel import offsets


def install() -> None:
    """Make LMCache's factory return a `CPUConnector` for vLLM on CPU, and for anything else what it did."""
    original = gpu_connector.CreateGPUConnector
    if getattr(original, "by_pdctl", False):
        return

    def create(config: Any, metadata: Any, engine: Any, layout_hints: Any = None) -> Any:
        from lmcache import torch_device_type

        if engine == EngineType.VLLM and torch_device_type == "cpu":
            return CPUConnector(metadata.kv_shape)
        return original(config, metadata, engine, layout_hints=layout_hints)

    create.by_pdctl = True  # type: ignore[attr-defined]
    gpu_connector.CreateGPUConnector = create


class CPUConnector(GPUConnectorInterface):  # type: ignore[misc]
    """Copies tokens between vLLM's cache and LMCache's objects.

    The cache is one [blocks, heads, block, 2 * dim] a layer, an object is [2, layers, tokens, heads * dim].
    """

    def __init__(self, kv_shape: tuple[int, int, int, int, int]) -> None:
        self.layers, _, _, self.heads, self.dim = kv_shape
        self.kvcaches: Any = None
        self.block = 0
        self.places: tuple[Any, Any] | None = None

    def get_shape(self, num_tokens: int) -> Any:
        return torch.Size([2, self.layers, num_tokens, self.heads * self.dim])

    def from_gpu(self, memory_obj: Any, start: int, end: int, **kwargs: Any) -> None:
        tokens = end - start
        for half, place in enumerate(self._places(start, end, kwargs)):
            for layer, cache in enumerate(self.kvcaches):
                memory_obj.tensor[half, layer, :tokens].copy_(_flat(cache)[place].reshape(tokens, -1))
        memory_obj.metadata.fmt = MemoryFormat.KV_2LTD

    def to_gpu(self, memory_obj: Any, start: int, end: int, **kwargs: Any) -> None:
        # Tokens that vLLM's own prefix cache holds already lie in blocks that other requests may share.
        skip = min(end - start, max(0, kwargs.get("vllm_cached_tokens", 0) - start))
        for half, place in enumerate(self._places(start + skip, end, kwargs)):
            for layer, cache in enumerate(self.kvcaches):
                moved = memory_obj.tensor[half, layer, skip : end - start]
                _flat(cache)[place] = moved.view(-1, self.heads, self.dim).to(cache.dtype)

    def batched_from_gpu(self, memory_objs: Any, starts: Any, ends: Any, **kwargs: Any) -> None:
        for memory_obj, start, end in zip(memory_objs, starts, ends, strict=True):
            self.from_gpu(memory_obj, start, end, **kwargs)

    def batched_to_gpu(
        self, memory_objs: Any = None, starts: Any = None, ends: Any = None, **kwargs: Any
    ) -> None:
        for memory_obj, start, end in zip(memory_objs, starts, ends, strict=True):
            self.to_gpu(memory_obj, start, end, **kwargs)

    def _places(self, start: int, end: int, kwargs: Any) -> list[tuple[Any, Any, Any]]:
        """For K and for V: the [tokens, heads, dim] index of tokens [start, end) into a flattened cache."""
        self.initialize_kvcaches_ptr(**kwargs)
        if self.places is None:
            first = self.kvcaches[0]
            self.block = first.shape[2]
            self.places = offsets(self.block, self.dim, first.dtype)
        slots = kwargs["slot_mapping"][start:end].to(torch.long)
        blocks = (slots // self.block)[:, None, None]
        heads = torch.arange(self.heads)[None, :, None]
        return [(blocks, heads, place[slots % self.block][:, None, :]) for place in self.places]


def _flat(cache: Any) -> Any:
    """[blocks, heads, block * 2 * dim], a view of the same memory."""
    return cache.view(*cache.shape[:2], -1)
