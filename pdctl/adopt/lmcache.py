"""File, variables and connector settings of one engine -> LMCache's keys, under their present names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pdctl.adopt.observed import HIDDEN, Process
from pdctl.adopt.text import yaml_mapping
from pdctl.knowledge.adoption import OLD_KEYS_IGNORED_SINCE, OLD_LMCACHE_KEYS
from pdctl.knowledge.versions import at_least

FILE = "LMCACHE_CONFIG_FILE"
PREFIX = "LMCACHE_"
# LMCACHE_* that are no keys of its file (lmcache 0.3.10 to 0.5.6).
NO_KEYS = frozenset(("config_file", "use_experimental", "track_usage", "log_level", "force_skip_save"))
LISTS = frozenset(("pd_peer_init_port", "pd_peer_alloc_port", "nixl_backends"))


@dataclass(frozen=True)
class Lmcache:
    """`keys` as LMCache would end up with; `old` are keys given by names it no longer reads."""

    keys: Mapping[str, Any]
    sources: Mapping[str, str]  # key -> where it was given
    old: Mapping[str, str]  # old name -> new name
    unread: str = ""  # a configuration file that could not be read

    def get(self, key: str) -> Any:
        return self.keys.get(key)

    def number(self, key: str) -> int | None:
        value = self.keys.get(key)
        if isinstance(value, bool):
            return None
        text = str(value)
        return int(text) if text.isdecimal() else None

    def ports(self, key: str) -> tuple[int, ...]:
        value = self.keys.get(key)
        given = value if isinstance(value, list) else str(value).split(",") if value is not None else []
        texts = [str(port).strip() for port in given]
        return tuple(int(text) for text in texts) if all(text.isdecimal() for text in texts) else ()

    def true(self, key: str) -> bool:
        return self.keys.get(key) is True or str(self.keys.get(key)).lower() in ("true", "1")

    def ignores_old(self, version: str) -> bool:
        """Whether a version takes no notice of the old names that were given."""
        return bool(self.old) and bool(version) and at_least(version, OLD_KEYS_IGNORED_SINCE)


def read_lmcache(process: Process, transfer: Mapping[str, Any]) -> Lmcache:
    """File, then variables, then `lmcache.*` of the connector's extra config: the later wins (config.py)."""
    keys: dict[str, Any] = {}
    sources: dict[str, str] = {}
    old: dict[str, str] = {}
    for name, value, source in _given(process, transfer):
        key = OLD_LMCACHE_KEYS.get(name, name)
        if key != name:
            old[name] = key
            if key in keys and not any(OLD_LMCACHE_KEYS.get(other) == key for other in list(old)[:-1]):
                continue  # the present name was given too
            value = {"true": True, "false": False}.get(str(value).lower(), value)
        keys[key], sources[key] = value, source
    path = process.environment.get(FILE, "")
    unread = path if path and path not in process.files else ""
    return Lmcache(keys, sources, old, unread)


def _given(process: Process, transfer: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    path = process.environment.get(FILE, "")
    for key, value in yaml_mapping(process.files.get(path, "")).items():
        yield key, value, path
    for name, text in process.environment.items():
        key = name.removeprefix(PREFIX).lower()
        if name.startswith(PREFIX) and key not in NO_KEYS:
            yield key, _from_variable(key, text), name
    extra = transfer.get("kv_connector_extra_config")
    for key, value in (extra if isinstance(extra, dict) else {}).items():
        if key.startswith("lmcache."):
            yield key.removeprefix("lmcache."), value, f"kv_connector_extra_config {key}"


def _from_variable(key: str, text: str) -> Any:
    """Lists are separated by commas, switches are `true` or `1`, mappings JSON."""
    if key in LISTS:
        return [word.strip() for word in text.strip("[]").split(",")]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.startswith("{") and HIDDEN not in text:
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text
