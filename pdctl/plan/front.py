"""The proxy of a cluster -> what a rollout can rely on: can it be told, and what becomes of its list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pdctl.desired.layout import config_dir, unit_name
from pdctl.desired.proxy import RELOADABLE
from pdctl.plan.model import Restart
from pdctl.state import Key, State, Unit
from pdctl.state.digest import content_digest
from pdctl.topology.model import Topology

LISTS = ("prefillers", "decoders", "servers")
# What both legs of a request depend on: with another value, engines of before and after cannot be mixed.
PAIRING = ("mode", "connector", "model", "chunk_size", "decode_leg")


@dataclass(frozen=True)
class Front:
    """The proxy before the work.

    `seen`: its host was looked at. `listens`: it runs and can be told to drain. `restarts`: it will, so that
    no request is taken meanwhile; `fixed`: it cannot take up its new file before that. `switched`: afterwards
    it speaks to engines in another way. `moved` are instances that get another address, `fewer` and `more`
    whether some get less or more room for KV. `known` are those on its list now, `drained` and `sides` those
    that an earlier rollout left drained, or apart from the others. `former`: the host on which the proxy runs
    now, where the spec has it on another.
    """

    key: Key
    seen: bool = False
    runs: bool = False
    listens: bool = False
    restarts: bool = False
    reloads: bool = False
    fixed: bool = False
    switched: bool = False
    moved: frozenset[str] = frozenset()
    fewer: bool = False
    more: bool = False
    known: frozenset[str] = frozenset()
    drained: frozenset[str] = frozenset()
    sides: frozenset[str] = frozenset()
    former: str = ""


def front(
    topology: Topology,
    wanted: State,
    observed: State,
    restarts: Mapping[Key, Restart],
    contents: Mapping[Key, bytes],
) -> Front:
    host = topology.proxy.host
    key = Key(host, f"unit:{unit_name(topology.cluster, 'proxy')}")
    want, now = wanted.get(key), observed.get(key)
    if not isinstance(want, Unit) or not isinstance(now, Unit) or now.active != "active":
        return Front(key, seen=_looked_at(key.host, wanted, observed), former=_former(key, observed))
    file = Key(host, f"file:{config_dir(topology.cluster)}/proxy.json")
    before, after = _before(now, contents.get(file)), read_list(getattr(wanted.get(file), "content", None))
    rows, new = entries(before), entries(after)
    both = [(row, new[name]) for name, row in rows.items() if name in new]
    slots = [(a.get("slots", 0), b.get("slots", 0)) for a, b in both]
    return Front(
        key,
        seen=True,
        runs=True,
        listens=bool(now.loaded),
        restarts=key in restarts,
        reloads=now.loaded != want.loaded,
        fixed=bool(before) and _fixed(before) != _fixed(after),
        switched=bool(before) and any(before.get(name) != after.get(name) for name in PAIRING),
        moved=frozenset(a["name"] for a, b in both if _address(a) != _address(b)),
        fewer=any(b < a for a, b in slots),
        more=any(b > a for a, b in slots),
        known=frozenset(rows or new),
        drained=frozenset(now.drained),
        sides=frozenset(now.sides),
    )


def _looked_at(host: str, wanted: State, observed: State) -> bool:
    """Hosts that were left out are in neither; a wish may be narrowed to others, or be for nothing at all."""
    return any(key.host == host for some in (wanted, observed) for key in some)


def _former(key: Key, observed: State) -> str:
    rows = ((k.host, row) for k, row in observed.items() if k.id == key.id and k.host != key.host)
    return next((host for host, row in rows if isinstance(row, Unit) and row.active == "active"), "")


def _before(now: Unit, content: bytes | None) -> dict[str, Any]:
    """What the running proxy has read, if it is what still lies on the host."""
    return {} if now.loaded and content_digest(content or b"") != now.loaded else read_list(content)


def read_list(content: bytes | None) -> dict[str, Any]:
    """A proxy.json; empty where there is none, or somebody broke it."""
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def entries(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for name in LISTS for row in config.get(name) or ()}


def _fixed(config: Mapping[str, Any]) -> dict[str, Any]:
    """What only a restart brings into force."""
    return {key: value for key, value in config.items() if key not in RELOADABLE}


def _address(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "slots"}
