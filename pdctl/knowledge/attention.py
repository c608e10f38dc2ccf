"""Which connector moves what kind of layers, by version of vLLM.

Layers with a sliding window are moved whole: without the hybrid manager of the KV cache vLLM keeps all their
tokens. Layers with a state (Mamba, linear attention) need that manager.
"""

from __future__ import annotations

from pdctl.knowledge.versions import at_least

# With a connector that does not support it vLLM turns the manager off, and models with states fail at startup
# (vLLM config/vllm.py, 0.32.0). LMCacheConnectorV1 does not, in any version up to 0.33.0.
# NixlConnector supports it in 0.32.0 (kv_connector/v1/nixl/connector.py); with 0.20.1 vLLM refused to start
# (Dynamo issue 10741).
STATES_OVER_NIXL = "0.32.0"
NO_STATES_OVER_NIXL_UNTIL = "0.20.1"


def recurrent_verdict(connector: str, vllm: str) -> tuple[bool, str]:
    """(refused, why) for a model of which some layers keep a state."""
    if connector == "lmcache":
        return True, "vLLM turns off what such models need and refuses to start"
    if at_least(NO_STATES_OVER_NIXL_UNTIL, vllm):
        return True, "vLLM turns off what such models need and refuses to start"
    if at_least(vllm, STATES_OVER_NIXL):
        return False, f"vLLM {vllm} says that nixl moves it, which is not proven"
    return False, f"whether nixl moves it with vLLM {vllm} is not known"


def all_layers_keep_everything(connector: str | None, vllm: str) -> bool | None:
    """Whether sliding layers keep the KV of all tokens too; None where only a start would tell."""
    if connector is None:
        return False
    if connector == "lmcache" or at_least("0.11.0", vllm):
        return True
    return False if at_least(vllm, STATES_OVER_NIXL) else None
