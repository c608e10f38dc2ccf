"""LMCache's settings and the transfer's beside those that pdctl would give -> what changes or goes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pdctl.adopt.engine import Engine
from pdctl.adopt.note import LMCACHE, Kind, Note
from pdctl.adopt.observed import HIDDEN
from pdctl.adopt.serving import section_of
from pdctl.desired.engine import transfer_config
from pdctl.desired.lmcache import entries
from pdctl.knowledge.adoption import OWN_LMCACHE_KEYS
from pdctl.topology import Topology
from pdctl.topology.model import Instance, Role

BUFFER = "pd_buffer_size"
NO_TIER = "pdctl moves KV between engines and keeps no other tier"
# Settings of the connector that name this one instance.
NAMES = frozenset(("lmcache_rpc_port", "engine_id"))


def settings_notes(engine: Engine, instance: Instance, topology: Topology) -> Iterator[Note]:
    """For an engine and the instance that takes its place."""
    ours = transfer_config(topology, instance)
    if ours is not None:
        yield from _transfer(engine, ours)
    if topology.kv is not None and instance.role is not Role.SERVER:
        yield from _lmcache(engine, {entry.key: entry.value for entry in entries(topology, instance)})


def _transfer(engine: Engine, ours: Mapping[str, Any]) -> Iterator[Note]:
    """Settings of the connector that have no place in a spec."""
    theirs = _flat(engine.transfer)
    for name in sorted(theirs.keys() - _flat(ours).keys()):
        if name.rpartition(".")[2] not in NAMES and ".lmcache." not in f".{name}":
            text = "a setting of the connector that pdctl does not give"
            original = _shown(name, theirs[name])
            yield Note(Kind.LEFT_OUT, section_of(instance_role(engine)), engine.label, text, original)


def _lmcache(engine: Engine, ours: Mapping[str, Any]) -> Iterator[Note]:
    now = engine.lmcache.number(BUFFER)
    if now is not None and now != ours[BUFFER]:
        text = f"its KV buffer has {now} bytes on each rank now, and {ours[BUFFER]} with pdctl"
        yield Note(Kind.DIFFERENT, LMCACHE, engine.label, text, BUFFER)
    for key, value in sorted(engine.lmcache.keys.items()):
        if key in OWN_LMCACHE_KEYS or _plain(value) == _plain(ours.get(key)):
            continue
        if HIDDEN in json.dumps(value, default=str):
            text = "holds a secret and has no counterpart"
            yield Note(Kind.SECRET, LMCACHE, engine.label, text, key)
        elif key in ours:
            text = f"{key} is {_plain(value)} now, and {_plain(ours[key])} with pdctl"
            yield Note(Kind.DIFFERENT, LMCACHE, engine.label, text)
        else:
            yield Note(Kind.LEFT_OUT, LMCACHE, engine.label, NO_TIER, _shown(key, value))


def instance_role(engine: Engine) -> Role:
    assert engine.role is not None, "a deployment's engines have their roles"
    return engine.role


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in mapping.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


def _plain(value: Any) -> str:
    """`True` of Python, `true` of YAML and of a variable are one."""
    return json.dumps(value, default=str).strip('"').lower()


def _shown(name: str, value: Any) -> str:
    text = json.dumps(value, default=str)
    return name if HIDDEN in text else f"{name}: {text}"
