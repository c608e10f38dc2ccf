"""The keys LMCache knows, with the type of each: others bring a warning and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Key(NamedTuple):
    """How one key's value is read from YAML and from the environment."""

    kind: str
    default: Any


def _keys(kind: str, default: Any, *names: str) -> dict[str, Key]:
    return {name: Key(kind, default) for name in names}


# LMCache 0.3.10 and 0.5.6, lmcache/v1/config.py: all that PD reads, and the common ones among the rest, which
# are listed so that they bring no warning. A real LMCache knows more.
KEYS: Mapping[str, Key] = {
    **_keys("int", 256, "chunk_size"),
    **_keys("bool", True, "local_cpu"),
    **_keys(
        "bool", False, "enable_pd", "enable_p2p", "enable_async_loading", "use_layerwise", "enable_blending"
    ),
    **_keys("bool", False, "save_decode_cache", "pd_skip_proxy_notification", "pd_bidirectional"),
    **_keys("bool", None, "save_unfull_chunk"),  # True until 0.3.10, False from 0.3.11, where PD forces True
    **_keys(
        "bool", False, "internal_api_server_enabled", "local_cpu_use_hugepages", "run_script_api_enabled"
    ),
    **_keys("str", None, "pd_role", "transfer_channel", "pd_peer_host", "pd_proxy_host", "pd_buffer_device"),
    **_keys("str", None, "remote_url", "remote_serde", "local_disk", "lmcache_instance_id", "store_location"),
    **_keys("str", "async", "pd_backend_mode"),
    **_keys("str", "builtin", "pre_caching_hash_algorithm"),
    **_keys("str", "0.0.0.0", "internal_api_server_host"),
    **_keys("ports", None, "pd_peer_init_port", "pd_peer_alloc_port", "pd_peer_query_port"),
    **_keys("int", None, "pd_proxy_port", "pd_buffer_size", "nixl_buffer_size"),
    **_keys("int", 0, "pd_max_prefill_len"),
    **_keys("int", 6999, "internal_api_server_port_start"),
    **_keys("int", 3000, "lookup_timeout_ms"),
    **_keys("float", float("inf"), "pd_allocation_timeout_sec"),
    **_keys("float", 5.0, "pd_shutdown_timeout_sec", "max_local_cpu_size"),
    **_keys("float", 0.005, "pd_condition_poll_interval_sec"),
    **_keys("float", 0.0, "max_local_disk_size"),
    **_keys("list", None, "nixl_backends", "retrieve_locations"),
    **_keys("json", None, "extra_config"),
    **_keys(
        "any", None, "cache_policy", "numa_mode", "gds_path", "blocking_timeout_secs", "enable_controller"
    ),
    **_keys("any", None, "enable_nixl_storage", "runtime_plugin_locations", "storage_plugins"),
    **_keys("any", None, "plugin_locations", "external_backends", "weka_path", "cufile_buffer_size"),
}


def read_value(kind: str, value: Any) -> Any:
    """`value` of YAML or of an environment variable as `kind`; ValueError when it is none."""
    return _READERS[kind](value)


def _bool(value: Any) -> bool:
    return value if isinstance(value, bool) else str(value).strip().lower() in ("true", "1")


def _list(value: Any) -> list[str]:
    given = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    return [str(item).strip() for item in given]


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "bool": _bool,
    "str": str,
    "list": _list,
    "ports": lambda value: [int(port) for port in _list(value)],
    "any": lambda value: value,
    "json": lambda value: json.loads(value) if isinstance(value, str) else dict(value),
}
