"""Environment variables that pdctl sets on engines itself, and the field that decides each.

vLLM envs.py, LMCache v1/config.py, torch.distributed (env:// rendezvous).
"""

from __future__ import annotations

from collections.abc import Mapping

OWN = "pdctl sets it on each instance itself"
ONE_HOST = "pdctl runs an instance on one host with tensor parallelism only"
RESERVED: Mapping[str, str] = {
    "LMCACHE_CONFIG_FILE": OWN,
    "LMCACHE_CHUNK_SIZE": "use `serving.lmcache.chunk_size`",
    "LMCACHE_ENABLE_PD": "use `serving.connector`",
    "LMCACHE_TRANSFER_CHANNEL": "use `serving.connector`",
    "LMCACHE_PD_BUFFER_SIZE": "use `serving.lmcache.buffer_bytes` and `prefiller_buffer_bytes`",
    "LMCACHE_INTERNAL_API_SERVER_PORT_START": "use `serving.ports.internal_api`",
    "LMCACHE_INTERNAL_API_SERVER_HOST": "it stays on loopback, since it executes code",
    "LMCACHE_LMCACHE_INSTANCE_ID": OWN,
    # With another value the last chunk of a prompt, or all of it, would not travel.
    "LMCACHE_SAVE_UNFULL_CHUNK": OWN,
    "LMCACHE_SAVE_DECODE_CACHE": OWN,
    "LMCACHE_LOCAL_CPU": OWN,
    "LMCACHE_MAX_LOCAL_CPU_SIZE": OWN,
    "LMCACHE_NIXL_BACKENDS": OWN,
    "CUDA_VISIBLE_DEVICES": "use `placement` with `gpus`",
    "CUDA_DEVICE_ORDER": "GPU indexes are in PCI order; " + OWN,
    "VLLM_NIXL_SIDE_CHANNEL_HOST": "use `private_address` of the host",
    "VLLM_NIXL_SIDE_CHANNEL_PORT": "use `serving.ports.side_channel`, or `ports` in `placement`",
    "VLLM_HOST_IP": "use `private_address` of the host",
    "VLLM_USE_V1": "connectors need vLLM's V1 engine, and 0.11.0 and later have no other",
    "VLLM_PORT": "use `serving.ports.engine`",
    "VLLM_ENGINE_READY_TIMEOUT_S": "use `serving.load_timeout_s`",
    **dict.fromkeys(("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE"), ONE_HOST),
}
# LMCache takes any key of its file from LMCACHE_<KEY> and lets the variable win without a word.
RESERVED_PREFIXES: Mapping[str, str] = {"LMCACHE_PD_": OWN, "PDCTL_": OWN, "VLLM_DP_": ONE_HOST}

# Caches that corrupt each other when engines that share one start together (vLLM issues 18851 and 24601).
COMPILE_CACHES = ("HOME", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")

# Folders of another UCX than the one inside the nixl wheel; two in a process hang or crash it (NIXL issue
# 1668).
OTHER_UCX = r"ucx|hpcx|doca|mlnx"
LIBRARY_PATHS = ("LD_LIBRARY_PATH", "LD_PRELOAD")

# What keeps huggingface_hub and transformers from the internet.
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")

UCX_TLS = "UCX_TLS"
# UCX 1.19 FAQ: an explicit list must hold a CUDA transport, or GPU memory is not recognised.
UCX_CUDA = ("cuda", "cuda_copy", "cuda_ipc", "gdr_copy")
# The one that tells GPU memory from the host's, and the name for all of them (UCX 1.19, uct/cuda/cuda_copy).
UCX_GPU_MEMORY = ("cuda", "cuda_copy")
UCX_EVERYTHING = ("all",)
# Of engines on one host: NVLink carries their KV (LMCache examples/disagg_prefill).
UCX_ONE_HOST = "cuda_ipc,cuda_copy,tcp"
# Everything else: of engines whose KV shall go over RDMA or fail.
UCX_WITHOUT_TCP = "^tcp"
UCX_NET_DEVICES = "UCX_NET_DEVICES"
# `GPU=NIC` by PCI address, comma-separated, and the variables that vLLM sets from it in each worker, as
# `NAME:port` (vLLM v1/executor/vllm_net_devices.py); it ends when either is missing, or a GPU of its own.
GPU_NIC_MAP = "VLLM_GPU_NIC_PCIE_MAPPING"
NIC_MAP_VARIABLES = "VLLM_NIC_SELECTION_VARS"
NIC_VARIABLES = frozenset({UCX_NET_DEVICES, GPU_NIC_MAP, NIC_MAP_VARIABLES})
# Aliases of UCX's transports between hosts (ucp/core/ucp_context.c) -> families that can talk to each other.
UCX_NETWORK: Mapping[str, frozenset[str]] = {
    "tcp": frozenset({"tcp"}),
    "rc": frozenset({"rc"}),
    "rc_x": frozenset({"rc"}),
    "rc_v": frozenset({"rc"}),
    "rc_mlx5": frozenset({"rc"}),
    "rc_verbs": frozenset({"rc"}),
    "ud": frozenset({"ud"}),
    "ud_x": frozenset({"ud"}),
    "ud_v": frozenset({"ud"}),
    "ud_mlx5": frozenset({"ud"}),
    "ud_verbs": frozenset({"ud"}),
    "dc": frozenset({"dc"}),
    "dc_x": frozenset({"dc"}),
    "dc_mlx5": frozenset({"dc"}),
    "ib": frozenset({"rc", "ud", "dc"}),
}

# Where huggingface_hub downloads from; whoever sets one of the variables goes another way, by another name
# (huggingface_hub constants.py; requests' proxies).
HUB = "huggingface.co"
ELSEWHERE_FROM_HUB = ("HF_ENDPOINT", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
