"""LMCACHE_CONFIG_FILE, LMCACHE_* and the connector's extra config -> LMCache, checked as the real one is."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from .args import Arguments
from .errors import StartError
from .kv import KeySpace
from .lmcache_keys import KEYS, read_value
from .parameters import Parameters, version
from .transfer import Transfer

log = logging.getLogger("lmcache")


@dataclass(frozen=True)
class LMCache:
    """A checked configuration of LMCache in one instance."""

    values: Mapping[str, Any]
    version: tuple[int, ...]
    ranks: int
    slots: int  # of the PD buffer at each rank; 0 with PD off
    chunk_bytes: int  # at each rank
    keys: KeySpace
    partial_chunks: bool
    skip_last_tokens: int

    @property
    def pd(self) -> bool:
        """Whether PD is on at all; it stays off, silently, with the key names of older versions."""
        return bool(self.values["enable_pd"])

    @property
    def blocking(self) -> bool:
        """Until the async backend came, the transfer ran inside the model step."""
        return self.version < (0, 4, 5)


def read_lmcache(
    environ: Mapping[str, str], arguments: Arguments, transfer: Transfer, parameters: Parameters
) -> LMCache:
    """The configuration, or StartError where LMCache's worker would die at start."""
    values = _values(environ, transfer.extra, version(parameters.lmcache_version))
    chunk_bytes = parameters.kv_bytes_per_token * values["chunk_size"]
    release = version(parameters.lmcache_version)
    if values["enable_pd"]:
        _check_pd(values, transfer, arguments.ranks, release)
        slots = _slots(values, chunk_bytes, release, exact=parameters.bytes_per_token is not None)
    else:
        log.warning("enable_pd is not set: no KV will be transferred and every instance computes its prompts")
        slots = 0
    return LMCache(
        values=values,
        version=release,
        ranks=arguments.ranks,
        slots=slots,
        chunk_bytes=chunk_bytes,
        keys=KeySpace(
            model=arguments.model,
            world=arguments.ranks,
            dtype=arguments.kv_dtype,
            hash_name=_hash_name(values["pre_caching_hash_algorithm"], environ),
            chunk_size=values["chunk_size"],
            prefix="vllm@" if release < (0, 5) else "",  # there in 0.3.10, gone in 0.5.6
        ),
        partial_chunks=_partial_chunks(values, transfer.extra, release),
        skip_last_tokens=int(transfer.extra.get("skip_last_n_tokens", 0)),
    )


def _values(environ: Mapping[str, str], extra: Mapping[str, Any], release: tuple[int, ...]) -> dict[str, Any]:
    """File, then environment, then `lmcache.*` of the extra config: the later one wins."""
    given: dict[str, Any] = {}
    if path := environ.get("LMCACHE_CONFIG_FILE"):
        given |= _file(Path(path))
    else:
        log.warning("No LMCACHE_CONFIG_FILE: the configuration comes from the environment alone")
    given |= {key: environ[f"LMCACHE_{key.upper()}"] for key in KEYS if f"LMCACHE_{key.upper()}" in environ}
    given |= {
        key.removeprefix("lmcache."): value for key, value in extra.items() if key.startswith("lmcache.")
    }
    for key in given.keys() - KEYS.keys():
        log.warning("Unknown configuration key: %s", key)
    return {key: _read(key, given.get(key), release) for key in KEYS}


def _file(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise StartError(f"LMCACHE_CONFIG_FILE={path}: {error}") from error
    if not isinstance(content or {}, dict):
        raise StartError(f"LMCACHE_CONFIG_FILE={path}: not a mapping")
    return content or {}


def _read(key: str, value: Any, release: tuple[int, ...]) -> Any:
    kind, default = KEYS[key]
    if value is None:
        return default
    try:
        return read_value(kind, value)
    except (TypeError, ValueError) as error:
        if release < (0, 5):  # raises in 0.3.10; 0.5.6 warns and goes on without the key
            raise StartError(f"ValueError: {key}: {value!r} ({error})") from error
        log.warning("Failed to read %s: %r (%s)", key, value, error)
        return None


def _check_pd(values: Mapping[str, Any], transfer: Transfer, ranks: int, release: tuple[int, ...]) -> None:
    role = values["pd_role"]
    wanted = {"kv_producer": "sender", "kv_consumer": "receiver"}.get(transfer.role)
    _assert(role in ("sender", "receiver"), f"pd_role must be sender or receiver, got {role!r}")
    _assert(role == wanted, f"pd_role {role} does not go with kv_role {transfer.role}")
    _assert(
        values["transfer_channel"] == "nixl",
        f"transfer_channel must be nixl, got {values['transfer_channel']!r}",
    )
    _assert(values["pd_buffer_size"] is not None, "pd_buffer_size is not set")
    devices = ("cuda",) if release < (0, 3, 14) else ("cuda", "cpu")
    device = values["pd_buffer_device"]
    _assert(device in devices, f"pd_buffer_device must be {' or '.join(devices)}, got {device!r}")
    _assert(not values["enable_p2p"], "enable_p2p and enable_pd exclude each other")
    if release < (0, 3, 11):
        _assert(not values["save_decode_cache"], "save_decode_cache must be false with PD")
    if release < (0, 4, 2):
        _assert(values["remote_url"] is None, "remote_url must not be set with PD")
    if role == "sender":
        _assert(
            values["pd_proxy_host"] and values["pd_proxy_port"], "pd_proxy_host and pd_proxy_port must be set"
        )
    else:
        _check_receiver(values, ranks)


def _check_receiver(values: Mapping[str, Any], ranks: int) -> None:
    _assert(values["pd_peer_host"], "pd_peer_host must be set")
    for key in ("pd_peer_init_port", "pd_peer_alloc_port"):
        ports = values[key]
        _assert(ports, f"{key} must be set")
        if len(ports) < ranks:
            raise StartError(
                f"IndexError: list index out of range: rank {len(ports)} finds no port in {key} {ports}, "
                f"which needs one for each of {ranks} ranks"
            )
        if len(ports) > ranks:
            log.warning("%s %s: only the first %d are used", key, ports, ranks)


def _slots(values: Mapping[str, Any], chunk_bytes: int, release: tuple[int, ...], *, exact: bool) -> int:
    """How many chunks the buffer of one rank holds."""
    size = values["pd_buffer_size"]
    if release < (0, 4, 3) and exact:
        _assert(
            size % chunk_bytes == 0,
            f"pd_buffer_size {size} is not a multiple of the chunk size {chunk_bytes}",
        )
    slots = int(size // chunk_bytes)
    if slots < 1:
        raise StartError(
            f"ValueError: pd_buffer_size {size} is smaller than one chunk of {chunk_bytes} bytes"
        )
    longest = values["pd_max_prefill_len"] if release >= (0, 4, 5) else 0
    if longest > slots * values["chunk_size"]:
        raise StartError(
            f"ValueError: pd_buffer_size {size} holds {slots * values['chunk_size']} tokens, "
            f"less than pd_max_prefill_len {longest}"
        )
    return slots


def _partial_chunks(values: Mapping[str, Any], extra: Mapping[str, Any], release: tuple[int, ...]) -> bool:
    """Whether the last, partial chunk of a prompt travels; without it short prompts bring no notification."""
    if extra.get("discard_partial_chunks"):
        return False
    if release >= (0, 3, 11) and values["enable_pd"]:
        if values["save_unfull_chunk"] is False:
            log.warning("save_unfull_chunk is forced to true with PD")
        return True
    return not values["enable_async_loading"] and values["save_unfull_chunk"] is not False


def _hash_name(algorithm: str, environ: Mapping[str, str]) -> str:
    """The hash and what it starts from: PYTHONHASHSEED, or something random, whatever the algorithm.

    It seeds Python's own hash and vLLM's NONE_HASH, on which every other algorithm begins.
    """
    seed = environ.get("PYTHONHASHSEED", "")
    if not seed or (algorithm == "builtin" and not seed.isdigit()):
        log.warning("PYTHONHASHSEED is not set: this instance's KV keys match no other instance's")
        seed = secrets.token_hex(8)
    return f"{algorithm}:{seed}"


def _assert(condition: object, message: str) -> None:
    if not condition:
        raise StartError(f"AssertionError: {message}")
