"""How long KV of a finished request may still be wanted: connector x version -> seconds.

Both legs of a request can be over while its KV lies on an instance and somebody may still read or write it.
Whoever restarts that instance waits for so long after its last request.
"""

from __future__ import annotations

from dataclasses import dataclass

from pdctl.knowledge.versions import KV_LEASE_IN_CONFIG

# What pdctl gives the engines; both are their defaults (vLLM 0.11.0 envs.py, vLLM 0.33.0 nixl connector).
NIXL_ABORT_S = 120
NIXL_LEASE_S = 30


@dataclass(frozen=True)
class Lease:
    """`until` is the first version of `package` to which this no longer applies; "" for none."""

    connector: str
    package: str
    until: str
    seconds: float
    source: str


# In order of versions: the first row that fits counts.
LEASES = (
    # A finished prompt stays on the prefiller until the decoder has read it, or for so long.
    Lease("nixl", "vllm", KV_LEASE_IN_CONFIG, NIXL_ABORT_S, "vLLM's VLLM_NIXL_ABORT_REQUEST_TIMEOUT"),
    # Renewed by heartbeats of the decoder as long as it means to read.
    Lease("nixl", "vllm", "", NIXL_LEASE_S, "vLLM's kv_lease_duration"),
    # The prefiller pushes and keeps nothing; a prefill that was cut off may still push in its last step, for
    # whose notices the proxy waits so long (LAST_STEP_S of pdctl/proxy/transfer.py).
    Lease("lmcache", "lmcache", "", 5.0, "pdctl proxy: late notices"),
)
