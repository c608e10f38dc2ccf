"""What the probe brings back: every host's resources, record and facts, and the hosts that gave none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pdctl.errors import PdctlError
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


@dataclass(frozen=True)
class OwedRestart:
    """A restart that one run of a unit needs: for `causes`, or once one of `peers` is there again."""

    invocation: str
    causes: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordMeta:
    """When and by whom a host was last applied to.

    `created` says of each recorded id whether pdctl made it; `pending` holds what an interrupted apply was
    working on, likewise; `owed` the restarts that were written down before an apply began, by id.
    """

    applied_at: str
    by: str
    pdctl: str
    spec_digest: str
    created: Mapping[str, bool] = field(default_factory=dict)
    pending: Mapping[str, bool] = field(default_factory=dict)
    owed: Mapping[str, OwedRestart] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """All hosts at one moment. A host is in `facts` or in `failures`.

    `contents` are the bytes of wanted files that differ (not secret, not large); `bundle` the files a host's
    bundle holds, by size; `notices` what could not be read there and no plan needs; `strays` units of
    this cluster that neither the spec nor the record names.
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
