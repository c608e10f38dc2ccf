"""Deployment -> `serving` of the draft, every instance and port pinned; made shorter later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pdctl.adopt.deployment import Deployment
from pdctl.adopt.engine import Engine
from pdctl.adopt.machines import kind_and_device
from pdctl.adopt.note import LMCACHE, POOLS, PROXY, SERVING, Kind, Note, Section
from pdctl.adopt.places import most_common, owner
from pdctl.adopt.words import whole_number
from pdctl.knowledge.adoption import POOL_FIELDS
from pdctl.topology.model import Role
from pdctl.topology.placement import POOL_FIELD
from pdctl.topology.ports import DECODER_OFFSET, ENGINE_BLOCK

METRICS = 9101
NOTIFICATION = 7500
BASES = {"internal_api": 6000, "engine": 20000}
CHUNK_SIZE = 256  # LMCache's own default (v1/config.py)
HASH_SEED = "0"


def serving_values(deployment: Deployment) -> tuple[dict[str, Any], list[Note]]:
    servers = bool(deployment.of(Role.SERVER))
    connector, notes = (None, []) if servers else _connector(deployment)
    values: dict[str, Any] = {"mode": "aggregated" if servers else "disaggregated"}
    if connector:
        values["connector"] = connector
    for role in deployment.roles:
        pool, more = _pool(deployment, role, connector)
        values[POOL_FIELD[role]] = pool
        notes += more
    taken = set(_taken(values))
    values["proxy"], more = _proxy(deployment, taken, connector)
    values["ports"] = _bases(deployment, taken)
    lmcache, seed_notes = _lmcache(deployment, connector)
    values |= {"lmcache": lmcache} if lmcache else {}
    return values | _patience(deployment), notes + more + seed_notes


def section_of(role: Role) -> Section:
    return POOLS[role.value]


def _patience(deployment: Deployment) -> dict[str, int]:
    """What the engines' own processes are allowed for loading."""
    name = "VLLM_ENGINE_READY_TIMEOUT_S"
    given = most_common(
        t for e in deployment.engines if (t := e.process.environment.get(name, "")).isdecimal()
    )
    return {"load_timeout_s": int(given)} if given else {}


def _connector(deployment: Deployment) -> tuple[str, list[Note]]:
    given = most_common(e.connector for e in deployment.engines if e.connector) or ""
    if given in ("lmcache", "nixl"):
        return given, []
    text = "pdctl has no counterpart for this connector; the draft moves KV by NIXL alone"
    return "nixl", [Note(Kind.LEFT_OUT, SERVING, "connector", text, given)]


def _pool(deployment: Deployment, role: Role, connector: str | None) -> tuple[dict[str, Any], list[Note]]:
    engines = deployment.of(role)
    values: dict[str, Any] = {}
    notes: list[Note] = []
    for flag, field in POOL_FIELDS.items():
        given = [text for e in engines if (text := e.command.text(flag))]
        if (common := most_common(given)) is not None and (number := _number(field, common)) is not None:
            values[field] = number
    parallel = values.setdefault("tensor_parallel", 1)
    odd = [e for e in engines if e.tensor_parallel != parallel]
    notes += [
        Note(
            Kind.CONTRADICTION,
            section_of(role),
            engine.label,
            f"instances of a role have one tensor_parallel, {parallel} here",
            f"--tensor-parallel-size {engine.tensor_parallel}",
        )
        for engine in odd
    ]
    values["placement"] = [_place(deployment, e, connector, parallel) for e in engines if e not in odd]
    return values, notes


def _number(field: str, text: str) -> int | float | None:
    if field != "gpu_memory_utilization":
        return whole_number(text)
    try:
        return float(text)
    except ValueError:
        return None


def _place(deployment: Deployment, engine: Engine, connector: str | None, parallel: int) -> dict[str, Any]:
    row: dict[str, Any] = {"host": engine.host}
    if kind_and_device(deployment) == ("vllm", "cuda") and len(engine.gpus) == parallel:
        row["gpus"] = list(engine.gpus)
    ports: dict[str, Any] = {"http": engine.port}
    if connector == "nixl":
        ports["side_channel"] = list(engine.side_channel)
    if connector == "lmcache" and engine.role is Role.DECODER:
        for name, key in (("init", "pd_peer_init_port"), ("alloc", "pd_peer_alloc_port")):
            if len(found := engine.lmcache.ports(key)) >= parallel:
                ports[name] = list(found[:parallel])  # LMCache reads one for each rank
    return row | {"ports": ports}


def _taken(values: dict[str, Any]) -> Iterator[int]:
    """Every port that the engines keep."""
    for field in POOL_FIELD.values():
        for place in values.get(field, {}).get("placement", ()):
            for port in place["ports"].values():
                yield from port if isinstance(port, list) else [port]


def _proxy(
    deployment: Deployment, taken: set[int], connector: str | None
) -> tuple[dict[str, Any], list[Note]]:
    front, notes = deployment.front, []
    told = most_common(str(h) for e in deployment.engines if (h := e.lmcache.get("pd_proxy_host")))
    if front is None:
        text = "no proxy was found; pdctl puts its own on its default ports"
        notes.append(Note(Kind.GUESS, PROXY, "proxy", text))
    here = owner(deployment.hosts, told, deployment.engines[0].host) if told else None
    host = front.host if front else here or deployment.hosts[0].name
    http = front.port if front and front.port else _free(9100, taken)
    notification = most_common(
        str(n) for e in deployment.of(Role.PREFILLER) if (n := e.lmcache.number("pd_proxy_port"))
    )
    taken.add(http)
    ports: dict[str, int] = {"http": http}
    if connector == "lmcache":
        known = front.notification if front else None
        ports["notification"] = int(notification) if notification else known or _free(NOTIFICATION, taken)
        taken.add(ports["notification"])
    ports["metrics"] = (front.metrics if front else None) or _free(METRICS, taken)
    taken.add(ports["metrics"])
    return {"host": host, "ports": ports}, notes


def _free(wanted: int, taken: set[int], size: int = 1, step: int = 1) -> int:
    """The first of `size` ports in a row that nothing else has."""
    first = wanted
    while any(port in taken for port in range(first, first + size)) and first + size + step < 32768:
        first += step  # 32768 and above are the kernel's own (ip_local_port_range)
    return first


def _bases(deployment: Deployment, taken: set[int]) -> dict[str, int]:
    """Where ports begin that can only be given for all instances together."""
    bases = {}
    widest = max(engine.tensor_parallel for engine in deployment.engines)
    sizes = {"internal_api": 1 + widest, "engine": ENGINE_BLOCK}
    for name, default in BASES.items():
        span = DECODER_OFFSET[name] + sizes[name] * len(deployment.engines)
        given = _given_base(deployment, name)
        bases[name] = given or _free(default, taken, span, 500)
        taken |= set(range(bases[name], bases[name] + span)) if not given else set()
    return bases


def _given_base(deployment: Deployment, name: str) -> int | None:
    """The base of a deployment whose ports already follow pdctl's rule."""
    found = set()
    for role in deployment.roles:
        offset = DECODER_OFFSET[name] if role is Role.DECODER else 0
        for host in deployment.hosts:
            firsts = [p for e in deployment.of(role) if e.host == host.name and (p := _first_port(e, name))]
            found |= {min(firsts) - offset} if firsts else set()
    return found.pop() if len(found) == 1 and min(found) > 1023 else None


def _first_port(engine: Engine, name: str) -> int | None:
    if name == "internal_api":
        return engine.lmcache.number("internal_api_server_port_start")
    text = engine.process.environment.get("VLLM_PORT", "")
    return int(text) if text.isdecimal() else None


def _lmcache(deployment: Deployment, connector: str | None) -> tuple[dict[str, Any], list[Note]]:
    values: dict[str, Any] = {}
    if connector == "lmcache":
        chunks = [str(e.lmcache.number("chunk_size") or CHUNK_SIZE) for e in deployment.engines]
        values["chunk_size"] = int(most_common(chunks) or CHUNK_SIZE)
        buffers = (("buffer_bytes", Role.DECODER), ("prefiller_buffer_bytes", Role.PREFILLER))
        for field, role in buffers:
            if size := _common(deployment.of(role), "pd_buffer_size"):
                values[field] = size
    seed = most_common(
        s for e in deployment.engines if (s := e.process.environment.get("PYTHONHASHSEED", "")).isdecimal()
    )
    notes = []
    if seed is None and connector:
        text = f"is not set to a number anywhere; pdctl gives every engine {HASH_SEED}"
        notes.append(Note(Kind.GUESS, LMCACHE, "all engines", text, "PYTHONHASHSEED"))
    return values | ({"hash_seed": seed} if seed and seed != HASH_SEED else {}), notes


def _common(engines: Sequence[Engine], key: str) -> int | None:
    given = [str(number) for e in engines if (number := e.lmcache.number(key)) is not None]
    common = most_common(given)
    return int(common) if common else None
