"""Deployment -> contradictions: what its sides, its proxy and its own settings do not agree on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pdctl.adopt.deployment import Deployment, member_of
from pdctl.adopt.engine import Engine
from pdctl.adopt.machines import kind_and_device
from pdctl.adopt.note import (
    DECODERS,
    LMCACHE,
    MODEL,
    POOLS,
    PROXY,
    SERVING,
    STACK,
    Kind,
    Note,
    Section,
)
from pdctl.adopt.places import owner
from pdctl.topology.model import Role

# What must be the same on every engine: the part of the spec, its name, and how to read it off an engine.
Reading = Callable[[Engine], str]
SAME: tuple[tuple[Section, str, Reading], ...] = (
    (MODEL, "the model argument", lambda e: e.model),
    (MODEL, "--served-model-name", lambda e: e.command.text("served-model-name", e.model)),
    (MODEL, "--dtype", lambda e: e.command.text("dtype", "auto")),
    (MODEL, "--revision", lambda e: e.command.text("revision", "none")),
    (MODEL, "--max-model-len", lambda e: e.command.text("max-model-len", "the model's own")),
    (SERVING, "--kv-cache-dtype", lambda e: e.command.text("kv-cache-dtype", "auto")),
    (SERVING, "--block-size", lambda e: e.command.text("block-size", "default")),
)
SAME_WITH_TRANSFER: tuple[tuple[Section, str, Reading], ...] = (
    (SERVING, "kv_connector", lambda e: str(e.transfer.get("kv_connector", "none"))),
    (LMCACHE, "PYTHONHASHSEED", lambda e: e.process.environment.get("PYTHONHASHSEED", "not set")),
)
SAME_WITH_LMCACHE: tuple[tuple[Section, str, Reading], ...] = (
    (LMCACHE, "chunk_size", lambda e: str(e.lmcache.get("chunk_size") or 256)),
    (
        LMCACHE,
        "pre_caching_hash_algorithm",
        lambda e: str(e.lmcache.get("pre_caching_hash_algorithm") or "builtin"),
    ),
)
PACKAGES = ("vllm", "lmcache", "nixl", "torch", "python")


def disagreements(deployment: Deployment) -> list[Note]:
    transfer = not deployment.of(Role.SERVER)
    lmcache = transfer and any(engine.connector == "lmcache" for engine in deployment.engines)
    table = (*SAME, *(SAME_WITH_TRANSFER if transfer else ()), *(SAME_WITH_LMCACHE if lmcache else ()))
    found = [note for row in table for note in _different(deployment.engines, *row)]
    for name in PACKAGES:
        having = [engine for engine in deployment.engines if name in engine.versions]
        found += _different(having, STACK, f"{name} version", _version_reader(name))
    if lmcache:
        found += [note for engine in deployment.engines for note in _lmcache(engine)]
    if kind_and_device(deployment) == ("vllm", "cuda"):
        found += [note for engine in deployment.engines for note in _gpus(deployment, engine)]
    return found + list(_proxy(deployment))


def _version_reader(name: str) -> Reading:
    return lambda engine: engine.versions[name]


def _different(engines: Sequence[Engine], section: Section, name: str, reading: Reading) -> Iterator[Note]:
    """One note with each value and who has it."""
    holders: dict[str, list[str]] = {}
    for engine in engines:
        holders.setdefault(reading(engine), []).append(engine.label)
    if len(holders) > 1:
        told = "; ".join(f"{value} ({', '.join(labels)})" for value, labels in holders.items())
        yield Note(Kind.CONTRADICTION, section, "all engines", f"{name} differs: {told}")


def _gpus(deployment: Deployment, engine: Engine) -> Iterator[Note]:
    section = POOLS[engine.role.value] if engine.role else SERVING
    named = engine.process.environment.get("CUDA_VISIBLE_DEVICES", "")
    if engine.foreign_gpus:
        text = "names GPUs that the host does not show; pdctl knows whole GPUs by their index"
        yield Note(Kind.LEFT_OUT, section, engine.label, text, f"CUDA_VISIBLE_DEVICES={named}")
    if len(engine.gpus) < engine.tensor_parallel:
        text = f"has {len(engine.gpus)} GPUs for tensor parallel size {engine.tensor_parallel}"
        yield Note(Kind.CONTRADICTION, section, engine.label, text, f"CUDA_VISIBLE_DEVICES={named}")
    gpus = next(seen.answer.facts.gpus for seen in deployment.hosts if seen.name == engine.host)
    used = {gpu.index for gpu in gpus if gpu.uuid in engine.process.gpus}
    if used and used != set(engine.gpus):
        text = f"uses GPUs {sorted(used)} by nvidia-smi, and {list(engine.gpus)} by its variables"
        yield Note(Kind.CONTRADICTION, section, engine.label, text, "CUDA_DEVICE_ORDER")


def _lmcache(engine: Engine) -> Iterator[Note]:
    """Settings of one engine that do not go together."""
    settings, version = engine.lmcache, engine.versions.get("lmcache", "")

    def note(text: str, original: str = "") -> Note:
        return Note(Kind.CONTRADICTION, LMCACHE, engine.label, text, original)

    if settings.unread:
        yield note("its configuration file cannot be read, so its settings are not known", settings.unread)
    if settings.ignores_old(version):
        names = ", ".join(settings.old)
        yield note(f"LMCache {version} ignores these names, so they do nothing there", names)
    elif settings.old:
        yield note("old names; LMCache since 0.3.10 ignores them", ", ".join(settings.old))
    if not settings.unread and not settings.true("enable_pd"):
        yield note("enable_pd is not on, so no KV moves")
    wanted = {Role.PREFILLER: "sender", Role.DECODER: "receiver"}.get(engine.role or Role.SERVER)
    if settings.get("pd_role") not in (None, wanted):
        yield note(f"pd_role does not go with its kv_role {engine.transfer.get('kv_role')}", "pd_role")
    if engine.role is Role.DECODER:
        yield from _receiver(engine)


def _receiver(engine: Engine) -> Iterator[Note]:
    for key in ("pd_peer_init_port", "pd_peer_alloc_port"):
        count = len(engine.lmcache.ports(key))
        if count != engine.tensor_parallel and not engine.lmcache.unread:
            text = f"{key} lists {count} ports for tensor parallel size {engine.tensor_parallel}"
            yield Note(Kind.CONTRADICTION, DECODERS, engine.label, text, key)
    if engine.command.flags.get("enable-prefix-caching") is not False:
        text = "caches prefixes of its own, so chunks stay in its buffer for ever; pdctl turns that off"
        yield Note(Kind.CONTRADICTION, DECODERS, engine.label, text)


def _proxy(deployment: Deployment) -> Iterator[Note]:
    """The proxy's lists against the engines, both ways."""
    front = deployment.front
    if front is None:
        return
    hosts, engines = deployment.hosts, deployment.engines
    places = {(engine.host, engine.port): engine for engine in engines}
    for member in front.members:
        engine = places.get((owner(hosts, member.host, front.host) or "", member.port))
        at = f"{member.host}:{member.port}"
        if engine is None:
            text = f"sends to a {member.role.value} at {at}, and no such engine was found"
            yield Note(Kind.CONTRADICTION, PROXY, front.label, text)
        elif engine.role is not member.role:
            text = f"takes {engine.label} for a {member.role.value}; its own settings make it a {engine.role}"
            yield Note(Kind.CONTRADICTION, PROXY, front.label, text)
        elif member.init:
            yield from _ports(deployment, engine, member.init, member.alloc)
    for engine in engines:
        if front.members and member_of(hosts, front, engine) is None:
            text = f"does not send to {engine.label} on port {engine.port}"
            yield Note(Kind.CONTRADICTION, PROXY, front.label, text)
    for engine in deployment.of(Role.PREFILLER):
        yield from _notices(deployment, engine)


def _ports(
    deployment: Deployment, engine: Engine, init: tuple[int, ...], alloc: tuple[int, ...]
) -> Iterator[Note]:
    for name, told in (("pd_peer_init_port", init), ("pd_peer_alloc_port", alloc)):
        own = engine.lmcache.ports(name)
        if own and told[: len(own)] != own:
            text = f"the proxy tells prefillers ports {list(told)} for it, and it opens {list(own)}"
            yield Note(Kind.CONTRADICTION, DECODERS, engine.label, text, name)


def _notices(deployment: Deployment, engine: Engine) -> Iterator[Note]:
    front, port = deployment.front, engine.lmcache.number("pd_proxy_port")
    if front is None or front.notification is None or port is None:
        return
    address = str(engine.lmcache.get("pd_proxy_host") or "")
    there = owner(deployment.hosts, address, engine.host)
    if port != front.notification or there != front.host:
        text = (
            f"tells the proxy at {address}:{port}; the proxy listens on {front.notification} of {front.host}"
        )
        yield Note(Kind.CONTRADICTION, PROXY, engine.label, text, "pd_proxy_port")
