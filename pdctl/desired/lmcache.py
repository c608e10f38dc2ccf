"""The LMCache file of a prefiller or a decoder, key by key with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pdctl.desired.render import render
from pdctl.knowledge import versions
from pdctl.knowledge.versions import at_least
from pdctl.topology.model import Instance, Kv, Role, Topology


@dataclass(frozen=True)
class Entry:
    key: str
    value: Any
    why: str = ""


def lmcache_file(topology: Topology, instance: Instance) -> bytes:
    """YAML for one instance. Every prefiller's is the same; each decoder has its own ports."""
    return render(
        "lmcache/lmcache.yaml.j2",
        version=topology.pins["lmcache"],
        role=instance.role.value,
        entries=entries(topology, instance),
    )


def entries(topology: Topology, instance: Instance) -> list[Entry]:
    kv = topology.kv
    assert kv is not None, "LMCache instances have a buffer size"
    sender = instance.role is Role.PREFILLER
    side = _sender(topology) if sender else _receiver(instance)
    return [
        Entry("enable_pd", True),
        Entry("transfer_channel", "nixl"),
        Entry("pd_role", "sender" if sender else "receiver"),
        *side,
        *_buffer(topology, kv, sender),
        Entry("nixl_backends", ["UCX"]),
        Entry(
            "chunk_size", kv.chunk_size, "Tokens per KV chunk; both sides must agree, the cache keys hold it."
        ),
        *_hash(topology),
        Entry("local_cpu", False, "PD moves KV from GPU to GPU: no other tier."),
        Entry("max_local_cpu_size", 0),
        Entry("save_unfull_chunk", True, "The last partial chunk of a prompt must travel too."),
        Entry("save_decode_cache", False),
        *_async(topology),
        Entry("lmcache_instance_id", f"{topology.cluster}-{instance.name}"),
        *_internal_api(instance),
    ]


def _sender(topology: Topology) -> list[Entry]:
    proxy = topology.proxy
    return [
        Entry(
            "pd_proxy_host",
            proxy.address,
            "The proxy binds this socket; each rank connects and pushes a notice.",
        ),
        Entry("pd_proxy_port", proxy.notification),
    ]


def _receiver(instance: Instance) -> list[Entry]:
    return [
        Entry("pd_peer_host", instance.address, "Bound here and dialled by prefillers: never localhost."),
        Entry("pd_peer_init_port", list(instance.ports.init), "One port per TP rank, in rank order."),
        Entry("pd_peer_alloc_port", list(instance.ports.alloc)),
    ]


def _buffer(topology: Topology, kv: Kv, sender: bool) -> list[Entry]:
    slots = kv.prefiller_slots if sender else kv.slots
    device = "cpu" if topology.spec.engine.device == "cpu" else "cuda"
    why = (
        f"{slots} chunks of {kv.chunk_bytes} bytes per rank: {slots * kv.chunk_size} prompt tokens in flight."
    )
    return [
        Entry("pd_buffer_size", slots * kv.chunk_bytes, why),
        Entry("pd_buffer_device", device),
    ]


def _hash(topology: Topology) -> list[Entry]:
    python = topology.pins["python"]
    if at_least(python, versions.STABLE_BUILTIN_HASH_PYTHON):
        return []
    why = f"Python {python} hashes None by memory layout: both sides need a hash that is always the same."
    return [Entry("pre_caching_hash_algorithm", versions.STABLE_HASH, why)]


def _async(topology: Topology) -> list[Entry]:
    if not at_least(topology.pins["lmcache"], versions.ASYNC_PD):
        return []
    return [
        Entry(
            "pd_allocation_timeout_sec",
            30.0,
            "The default is to wait for ever when a decoder's buffer is full.",
        ),
    ]


def _internal_api(instance: Instance) -> list[Entry]:
    return [
        Entry(
            "internal_api_server_enabled",
            False,
            "Its /run_script executes code: off; loopback and own ports if on.",
        ),
        Entry("internal_api_server_host", "127.0.0.1"),
        Entry("internal_api_server_port_start", instance.ports.internal_api[0]),
    ]
