"""The resolved system: frozen values, nothing left to default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pdctl.knowledge.systems import SYSTEM_PYTHON
from pdctl.parts.cluster_lock import ClusterLock
from pdctl.spec.model import Cluster
from pdctl.spec.model_files import ModelFiles


class Role(StrEnum):
    PREFILLER = "prefiller"
    DECODER = "decoder"
    SERVER = "server"
    PROXY = "proxy"


# The order in which roles start; notification sockets connect lazily, so the proxy may come last.
START_ORDER = (Role.DECODER, Role.SERVER, Role.PREFILLER, Role.PROXY)


@dataclass(frozen=True)
class Ports:
    """Ports of one instance. Lists have one entry per TP rank unless said otherwise."""

    http: int
    side_channel: tuple[int, ...] = ()  # one per rank or one per instance, by vLLM version
    init: tuple[int, ...] = ()
    alloc: tuple[int, ...] = ()
    internal_api: tuple[int, ...] = ()  # the scheduler's, then one per rank; loopback only
    engine: range = range(0)  # block from which the engine takes its own sockets, in order

    def named(self) -> list[tuple[str, int]]:
        """Every single port with its purpose, for the ledger."""
        return [("http", self.http)] + [
            (name, port)
            for name in ("side_channel", "init", "alloc", "internal_api", "engine")
            for port in getattr(self, name)
        ]


@dataclass(frozen=True)
class Near:
    """What of its host is close to the GPUs of an instance; empty where the spec does not declare it."""

    nics: tuple[str, ...] = ()  # as UCX names them, `mlx5_0:1`
    numa: tuple[int, ...] = ()  # nodes
    cpus: str = ""  # as Linux lists them
    # PCI addresses of each GPU and its one NIC, where they differ: then an engine can choose for each rank.
    pairs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Instance:
    """One engine process of a role."""

    name: str
    role: Role
    index: int  # among the role's instances in the cluster
    host: str
    address: str  # where peers reach it
    gpus: tuple[int, ...]
    tensor_parallel: int
    ports: Ports
    near: Near = Near()

    @property
    def url(self) -> str:
        return f"http://{bracketed(self.address)}:{self.ports.http}"


@dataclass(frozen=True)
class ProxyPlace:
    host: str
    address: str
    http: int
    metrics: int
    notification: int | None  # only with LMCache

    @property
    def url(self) -> str:
        return f"http://{bracketed(self.address)}:{self.http}"


@dataclass(frozen=True)
class Peer:
    """A host's addresses, `address` from the controller and `private` between hosts, and what it runs."""

    name: str
    address: str
    private: str
    interface: str | None
    gpus: int
    gpu_model: str  # as in knowledge.gpus, or empty
    os: str  # as in knowledge.systems

    @property
    def python(self) -> str:
        """The system's own, which runtimes from the bundle use."""
        return SYSTEM_PYTHON[self.os]


@dataclass(frozen=True)
class Kv:
    """The KV cache of the model on one TP rank, and the transfer buffer that holds it."""

    bytes_per_token: int  # per rank
    chunk_size: int  # tokens
    chunk_bytes: int  # per rank
    slots: int  # chunks a buffer holds
    prefiller_slots: int

    @property
    def buffer_bytes(self) -> int:
        return self.slots * self.chunk_bytes

    @property
    def prefiller_buffer_bytes(self) -> int:
        return self.prefiller_slots * self.chunk_bytes


@dataclass(frozen=True)
class Topology:
    """One cluster, resolved. `pins` are the stack's versions with the base applied."""

    spec: Cluster
    hosts: Mapping[str, Peer]
    instances: tuple[Instance, ...]
    proxy: ProxyPlace
    pins: Mapping[str, str]
    max_model_len: int
    kv: Kv | None  # None when no LMCache buffer is needed
    files: ModelFiles | None = None  # what the controller has of the model
    vocabulary: tuple[str, ...] = ()  # files that pdctl puts on the hosts, so that engines download none
    # gpu_memory_utilization that leaves room for the transfer buffer, where the spec gives none.
    utilization: Mapping[Role, float] = field(default_factory=dict)
    lock: ClusterLock | None = None  # exact versions, where the user keeps them beside the spec

    @property
    def cluster(self) -> str:
        return self.spec.cluster

    @property
    def served_name(self) -> str:
        return self.spec.model.served_name or self.spec.model.id

    def of(self, role: Role) -> tuple[Instance, ...]:
        return tuple(i for i in self.instances if i.role is role)


def bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
