"""proxy.json -> Config: everything the proxy is told, checked before a socket is opened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from .typed import ConfigError, read


@dataclass(frozen=True)
class Address:
    host: str
    port: int  # 0 asks the system for a free one

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Server:
    """A prefiller, or an instance of an aggregated cluster."""

    name: str
    url: str


@dataclass(frozen=True)
class Decoder:
    name: str
    url: str
    host: str = ""  # where prefillers dial init_ports and alloc_ports (LMCache's pd_peer_host)
    init_ports: tuple[int, ...] = ()
    alloc_ports: tuple[int, ...] = ()
    slots: int = 0  # KV chunks that fit in pd_buffer_size, per rank

    @property
    def ranks(self) -> int:
        """Every rank of the prefiller sends one notice per request (LMCache 0.3.10 pd_backend.py)."""
        return len(self.init_ports)


@dataclass(frozen=True)
class Limits:
    connect_s: float = 3
    prefill_s: float = 120
    notification_s: float = 30
    first_byte_s: float = 60  # longest silence of a decoder: before its first byte and between two
    answer_s: float = 3600  # an answer that is not streamed comes in one piece, at its end
    queue: int = 1024
    queue_wait_s: float = 60
    body_bytes: int = 67108864


@dataclass(frozen=True)
class Health:
    interval_s: float = 2
    failures: int = 3  # in a row, before an instance leaves rotation
    cooldown_s: float = 15  # how long it then stays out, even when its /health says 200


@dataclass(frozen=True)
class Config:
    cluster: str
    mode: Literal["disaggregated", "aggregated"]
    listen: Address
    model: str
    connector: Literal["lmcache", "nixl"] | None = None
    metrics: Address | None = None
    notification: Address | None = None
    control: str | None = None  # path of a unix socket
    chunk_size: int | None = None
    decode_leg: Literal["original", "append-first-token"] | None = None
    chat: bool = False
    prefillers: tuple[Server, ...] = ()
    decoders: tuple[Decoder, ...] = ()
    servers: tuple[Server, ...] = ()
    limits: Limits = field(default_factory=Limits)
    health: Health = field(default_factory=Health)

    @property
    def lmcache(self) -> bool:
        return self.connector == "lmcache"

    @property
    def appends(self) -> bool:
        return self.lmcache and self.decode_leg == "append-first-token"


# What a running proxy takes up when it reads its file again; all else needs a restart.
RELOADABLE = frozenset({"prefillers", "decoders", "servers", "limits", "health"})


@dataclass(frozen=True)
class Loaded:
    """A configuration, the file it was read from, and the digest of that file's bytes."""

    config: Config
    path: Path | None = None
    digest: str = ""


def load(path: Path) -> Loaded:
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{path}: {reason}") from error
    try:
        config = parse(json.loads(text, object_pairs_hook=without_duplicates))
        return Loaded(config, path, "sha256:" + hashlib.sha256(data).hexdigest())
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error


def parse(raw: object) -> Config:
    config = read(Config, raw)
    for problem in problems(config):
        raise ConfigError(problem)
    return config


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"{key}: given twice")
    return dict(pairs)


def problems(config: Config) -> Iterable[str]:
    yield from mode_problems(config)
    yield from address_problems(config)
    if config.control is not None and not config.control.startswith("/"):
        yield f"control: must be an absolute path, got {config.control!r}"
    yield from instance_problems(config)
    if config.lmcache:
        yield from lmcache_problems(config)
    for part in ("limits", "health"):
        for item in fields(getattr(config, part)):
            if getattr(getattr(config, part), item.name) <= 0 and item.name != "queue":
                yield f"{part}.{item.name}: must be above 0"
    if config.limits.queue < 0:
        yield "limits.queue: must be 0 or more"


def mode_problems(config: Config) -> Iterable[str]:
    if config.mode == "aggregated":
        wanted, unwanted = ["servers"], ["prefillers", "decoders"]
        if config.connector is not None:
            yield f"connector: must be null in mode aggregated, got {config.connector}"
    else:
        wanted, unwanted = ["prefillers", "decoders"], ["servers"]
        if config.connector is None:
            yield "connector: mode disaggregated needs lmcache or nixl"
    for key in wanted:
        if not getattr(config, key):
            yield f"{key}: mode {config.mode} needs at least one"
    for key in unwanted:
        if getattr(config, key):
            yield f"{key}: must be empty in mode {config.mode}"


def address_problems(config: Config) -> Iterable[str]:
    for key in ("listen", "metrics", "notification"):
        address = getattr(config, key)
        if address is not None and not 0 <= address.port <= 65535:
            yield f"{key}.port: must be 0-65535, got {address.port}"


def instance_problems(config: Config) -> Iterable[str]:
    seen: dict[str, str] = {}
    for key in ("prefillers", "decoders", "servers"):
        for index, instance in enumerate(getattr(config, key)):
            where = f"{key}[{index}]"
            if instance.name in seen:
                yield f"{where}.name: {instance.name!r} is also the name of {seen[instance.name]}"
            seen[instance.name] = where
            if not is_base_url(instance.url):
                yield f"{where}.url: expected http://HOST:PORT, got {instance.url!r}"


def is_base_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return False
    plain = not (url.query or url.fragment or url.username or url.password or url.path.strip("/"))
    return url.scheme in ("http", "https") and bool(url.hostname) and port != 0 and plain


def lmcache_problems(config: Config) -> Iterable[str]:
    for key in ("notification", "chunk_size", "decode_leg"):
        if getattr(config, key) is None:
            yield f"{key}: connector lmcache needs it"
    if config.chunk_size is not None and config.chunk_size < 1:
        yield "chunk_size: must be above 0"
    if config.chat and config.appends:
        yield "chat: not possible with decode_leg append-first-token (a chat body has no prompt to append to)"
    for index, decoder in enumerate(config.decoders):
        where = f"decoders[{index}]"
        if not decoder.host:
            yield f"{where}.host: connector lmcache needs it"
        if not decoder.init_ports or len(decoder.init_ports) != len(decoder.alloc_ports):
            counts = f"{len(decoder.init_ports)} and {len(decoder.alloc_ports)}"
            yield f"{where}: init_ports and alloc_ports need one port per rank each, got {counts}"
        if decoder.slots < 1:
            yield f"{where}.slots: must be above 0"
