"""Named sets of version pins that are known to fit together. All values are text."""

from __future__ import annotations

from collections.abc import Mapping

# What each set is for, in a line.
STACKS_ABOUT: Mapping[str, str] = {
    "article-2025": "the engineering article's: LMCache 0.3.10 with vLLM 0.11.0, wheels of CUDA 12.8",
    "cuda13-2026": "the newest of wheels that are all for CUDA 13 and one torch",
}

STACKS: Mapping[str, Mapping[str, str]] = {
    # The engineering article's set (one HGX H100, gpt-oss-120b). It names no vLLM: 0.11.0 is the pair that
    # LMCache 0.3.10's wheel fits (both torch 2.8.0). NIXL commit 3daa987 is package version 0.6.0.
    "article-2025": {
        "driver_package": "nvidia-driver-580-server-open",
        "driver": "580.95.05-0ubuntu0.22.04.2",
        "fabricmanager": "580.95.05-0ubuntu0.22.04.2",
        "cuda": "13.0.88-1",
        "doca_ofed": "3.0.0-058218",
        "ucx": "1.19.0",
        "nixl": "0.6.0",
        "nixl_commit": "3daa98705e129ab9d53b6290e2c62f572101a411",
        "lmcache": "0.3.10",
        "vllm": "0.11.0",
        "torch": "2.8.0",
        "python": "3.12",
    },
    # The newest set whose wheels are all CUDA 13 and all built for torch 2.13 (package metadata).
    "cuda13-2026": {
        "driver_package": "nvidia-driver-580-server-open",
        "driver": "580.95.05-0ubuntu0.22.04.2",
        "fabricmanager": "580.95.05-0ubuntu0.22.04.2",
        "nixl": "1.5.1",
        "lmcache": "0.5.6",
        "vllm": "0.32.0",
        "torch": "2.13.0",
        "python": "3.12",
    },
}
