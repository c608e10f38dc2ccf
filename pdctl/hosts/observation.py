"""What the probe brings back: every host's resources, record and facts, and the hosts that gave none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pdctl.errors import PdctlError
from pdctl.hosts.ready import Deep, Rdma, Ready
from pdctl.plan.foreign import Foreign
from pdctl.plan.machine import Machine
from pdctl.plan.repositories import Repositories
from pdctl.state import Key, Resource


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi shows it; memory in MiB."""

    index: int
    uuid: str
    name: str
    memory_total: int | None
    memory_used: int | None
    driver_version: str
    pci_bus_id: str
    mig_mode_current: str
    path: str = ""  # its folder below /sys, which tells what is between it and a NIC
    numa: int = -1  # node, where the host says
    cpus: str = ""  # those of that node, as Linux lists them


@dataclass(frozen=True)
class NicPort:
    """One port of a NIC in the words of /sys: ACTIVE, LinkUp, InfiniBand, 400 Gb/sec (4X NDR)."""

    port: int
    state: str
    physical: str
    link: str
    rate: str


@dataclass(frozen=True)
class Nic:
    """One RDMA device; address and path are empty for one in software."""

    name: str
    pci: str
    path: str
    numa: int
    ports: tuple[NicPort, ...]


@dataclass(frozen=True)
class Facts:
    """A host in a few facts. `systemd` is its version, `disk_free` bytes by path, `time_s` its clock."""

    hostname: str
    python: str
    kernel: str
    arch: str
    os_id: str
    os_version: str
    systemd: str
    boot_id: str
    time_s: float
    root: bool
    cpus: int
    memory_bytes: int
    disk_free: dict[str, int]
    gpus: tuple[Gpu, ...] = ()
    driver: str = ""  # version of the NVIDIA kernel module that is loaded
    nics: tuple[Nic, ...] = ()
    numa_nodes: tuple[int, ...] = ()
    stack: Machine = field(default_factory=Machine)
    ready: Ready = field(default_factory=Ready)
    apt: Repositories = field(default_factory=Repositories)
    rdma: Rdma = field(default_factory=Rdma)
    deep: Deep | None = None  # only where it was asked for

    @property
    def machine(self) -> Machine:
        """What it says of its driver and kernels."""
        driver = self.driver or next((gpu.driver_version for gpu in self.gpus), "")
        return replace(self.stack, driver=driver, kernel=self.kernel)


@dataclass(frozen=True)
class OwedRestart:
    """A restart that one run of a unit needs: for `causes`, or once one of `peers` is there again."""

    invocation: str
    causes: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()


@dataclass(frozen=True)
class OwedReboot:
    """A reboot that an apply began in `boot`, for `why`; gone once the host was seen to be right after it."""

    boot: str
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class LockOwner:
    """Who holds a host's lock; `age_s` by the host's own clock. The rest tells whether it still runs."""

    by: str
    command: str
    age_s: float
    token: str = ""
    machine: str = ""  # a digest of the controller's machine id and name
    boot: str = ""
    pid_namespace: str = ""
    pid: int = 0
    started: int = 0  # in clock ticks after that machine's start: a pid may be used again


@dataclass(frozen=True)
class Generation:
    """One apply as a host keeps it; `age_s` by the host's clock. `state` is `complete`, or how it ended else:
    `started` (its controller is at it, or was killed), `failed`, `interrupted`, `partial`, `abandoned`; or
    `broken`: what the host keeps of it cannot be read, as `what` says."""

    number: int
    state: str = "started"
    at: str = ""
    by: str = ""
    pdctl: str = ""
    what: str = ""
    age_s: float = 0.0
    digest: str = ""  # of all that the host shall hold
    spec: str = ""  # digest of the spec's text
    venvs: tuple[str, ...] = ()  # paths
    command: str = ""
    restores: int | None = None  # the generation that it rolled back to
    life: str = ""  # common to all generations of a cluster from its first one until it is destroyed


@dataclass(frozen=True)
class JournalEntry:
    """The last thing a host's journal tells: a step that began, ended or failed."""

    generation: int
    step: str
    event: str  # begin | end | failed
    age_s: float
    by: str = ""


@dataclass(frozen=True)
class SpecText:
    """The text of cluster.yaml as generation `number` was made from it; `lock` is the SHA-256 of its
    cluster.lock, empty where it had none."""

    number: int
    text: str
    lock: str = ""


@dataclass(frozen=True)
class OtherWork:
    """Another cluster that is being changed on the same host, and who is at it."""

    cluster: str
    by: str
    command: str
    age_s: float


@dataclass(frozen=True)
class Kept:
    """What a host keeps beside the record. `mark` changes with every apply that does anything there; `broken`
    are files of it that say nothing, and why; `busy` while a module of this cluster is at work, also one of
    an apply that was killed; `others` while one of another cluster is."""

    lock: LockOwner | None = None
    generations: tuple[Generation, ...] = ()  # oldest first
    journal: JournalEntry | None = None
    spec_text: SpecText | None = None  # of its newest complete generation
    mark: str = ""
    broken: tuple[str, ...] = ()
    busy: bool = False
    others: tuple[OtherWork, ...] = ()
    bygone: tuple[int, ...] = ()  # numbers of generations of an earlier life of the cluster, left out here


@dataclass(frozen=True)
class RecordMeta:
    """When and by whom a host was last applied to.

    `created` says of each recorded id whether pdctl made it; `pending` holds what an interrupted apply was
    working on, likewise, and `unproven` why units among them were not seen healthy; `owed` the restarts that
    were written down before an apply began, by id; `timings` how many seconds the last start of each unit
    took until it was healthy, by the unit's name, and the last `reboot`; `reboot` is one that has not been
    seen to its end.
    """

    applied_at: str
    by: str
    pdctl: str
    spec_digest: str
    created: Mapping[str, bool] = field(default_factory=dict)
    pending: Mapping[str, bool] = field(default_factory=dict)
    unproven: Mapping[str, str] = field(default_factory=dict)
    owed: Mapping[str, OwedRestart] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    reboot: OwedReboot | None = None


@dataclass(frozen=True)
class Observation:
    """All hosts at one moment. A host is in `facts` or in `failures`.

    `contents` are the bytes of wanted files that differ (not secret, not large); `bundle` the files a host's
    bundle holds, by size; `notices` what could not be read there and no plan needs; `strays` units of
    this cluster that neither the spec nor the record names; `kept` lock, journal and generations by host;
    `foreign` who else is on our ports and GPUs.
    """

    state: Mapping[Key, Resource]
    recorded: Mapping[Key, Resource]
    records: Mapping[str, RecordMeta]
    contents: Mapping[Key, bytes]
    facts: Mapping[str, Facts]
    bundle: Mapping[str, Mapping[str, int]]
    notices: Mapping[str, tuple[str, ...]]
    failures: Mapping[str, PdctlError]
    strays: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: Mapping[str, Kept] = field(default_factory=dict)
    foreign: Mapping[str, tuple[Foreign, ...]] = field(default_factory=dict)

    @property
    def newest_spec(self) -> SpecText | None:
        """The spec that the hosts were last brought to, in whole; None before the first generation."""
        texts = [kept.spec_text for kept in self.kept.values() if kept.spec_text]
        return max(texts, key=lambda text: text.number, default=None)

    @property
    def timings(self) -> dict[Key, float]:
        """How long the last start of each unit took until it was healthy, in seconds."""
        return {
            Key(host, f"unit:{unit}"): seconds
            for host, meta in self.records.items()
            for unit, seconds in meta.timings.items()
        }
