"""`--kv-transfer-config` -> Transfer: which connector this instance has and which side of it it plays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import StartError
from .parameters import version

LMCACHE = ("LMCacheConnectorV1", "LMCacheConnectorV1Dynamic")
NIXL = ("NixlConnector",)

_ROLES = ("kv_producer", "kv_consumer", "kv_both")
# What vLLM 0.11.0 to 0.33.0 read of it; vLLM refuses other keys.
_KEYS = {
    "kv_connector",
    "engine_id",
    "kv_buffer_device",
    "kv_buffer_size",
    "kv_role",
    "kv_rank",
    "kv_parallel_size",
    "kv_ip",
    "kv_port",
    "kv_connector_extra_config",
    "kv_connector_module_path",
    "enable_permute_local_kv",
}


@dataclass(frozen=True)
class Transfer:
    """The connector and its role; no connector: an aggregated server."""

    connector: str = ""
    role: str = ""
    engine_id: str | None = None
    recompute_on_failure: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def metric_family(self) -> str:
        """How the names of this connector's own metrics begin."""
        return "lmcache:" if self.connector in LMCACHE else "vllm:nixl_" if self.connector in NIXL else ""

    @property
    def sends(self) -> bool:
        """Whether this instance computes KV for others."""
        return self.role in ("kv_producer", "kv_both")

    @property
    def loads(self) -> bool:
        """Whether this instance takes KV from others."""
        return self.role in ("kv_consumer", "kv_both")


def parse_transfer(given: Mapping[str, Any] | None, vllm_version: str) -> Transfer:
    """The transfer configuration, refused where vLLM refuses it."""
    if not given:
        return Transfer()
    has_policy = version(vllm_version) >= (0, 26)  # vLLM config/kv_transfer.py
    known = _KEYS | {"kv_load_failure_policy"} if has_policy else _KEYS
    if unknown := sorted(set(given) - known):
        raise StartError(f"ValidationError: kv-transfer-config: unexpected key {unknown[0]!r}")
    connector = given.get("kv_connector")
    role = given.get("kv_role")
    if connector not in (*LMCACHE, *NIXL):
        raise StartError(
            f"ValueError: unsupported connector type: {connector}; the simulator plays "
            f"{', '.join((LMCACHE[0], *NIXL))}"
        )
    if role not in _ROLES:
        raise StartError(
            f"ValueError: kv_role must be one of {', '.join(_ROLES)} with {connector}, got {role!r}"
        )
    # Older versions computed the prompt again and said nothing.
    policy = given.get("kv_load_failure_policy", "fail" if has_policy else "recompute")
    if policy not in ("fail", "recompute"):
        raise StartError(f"ValidationError: kv_load_failure_policy must be fail or recompute, got {policy!r}")
    extra = given.get("kv_connector_extra_config") or {}
    if not isinstance(extra, dict):
        raise StartError("ValidationError: kv_connector_extra_config must be an object")
    return Transfer(connector, role, given.get("engine_id"), policy == "recompute", extra)
