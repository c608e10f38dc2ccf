"""The plan as values: what changes, what drifted, what restarts, in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pdctl.state import Key, Resource, Unit


class Action(StrEnum):
    """What happens to a resource; the value is the symbol it is printed with."""

    CREATE = "+"
    UPDATE = "~"
    DELETE = "-"
    FORGET = "="  # leaves the record but stays on the host: it was there before pdctl


@dataclass(frozen=True)
class Change:
    """One resource that is not as the spec wants it. `drift`: it once was, and changed outside pdctl."""

    key: Key
    action: Action
    desired: Resource | None
    observed: Resource | None
    why: tuple[str, ...]
    drift: bool = False
    text: tuple[str, ...] = ()  # unified diff of a file, secrets masked


@dataclass(frozen=True)
class Drift:
    """One resource that is no longer as pdctl left it, or that pdctl left unfinished."""

    key: Key
    recorded: Resource | None
    observed: Resource | None
    what: tuple[str, ...]
    unproven: bool = False  # a unit that has passed no health gate since an apply touched it


@dataclass(frozen=True)
class Restart:
    """A running process that will be restarted, and why. `hidden`: the process itself looks right."""

    host: str
    unit: str
    instance: str
    causes: tuple[str, ...]
    hidden: bool = False


@dataclass(frozen=True)
class Owed:
    """A restart that the run `invocation` of a unit needs: for `causes` at once, for `peers` (units of
    decoders that it knew) as soon as one of them is there again."""

    key: Key
    invocation: str
    causes: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()


class StepKind(StrEnum):
    """What a step does on its hosts."""

    PUT = "put"  # users, directories, packages, files and runtimes
    STOP = "stop"  # units that make room for others: for now, or for good
    UNITS = "units"  # starts, restarts, reloads; ends when all of them are healthy
    DRAIN = "drain"  # the proxy is told which instances get requests
    REBOOT = "reboot"  # units stop, packages that need it change, the host reboots and is looked at
    DELETE = "delete"


@dataclass(frozen=True)
class Step:
    """Changes applied together, one play of the playbook. `keys` name the resources.

    A drain step has the proxy's unit as its key; `drain` and `undrain` are instances. `sides` are those on
    the new side from then on: a request uses a prefiller and a decoder of one side. None leaves the sides
    as they are, an empty tuple ends them. `reload`: the proxy reads its list of instances again before.
    `others`: it drains only once the proxy reaches another one of their role; False where those could not be
    looked at. `outage` says what is not served while the step runs. `hosts` are those that a step reboots:
    one may have nothing else to do there.
    """

    name: str  # unique in the plan: [a-z0-9_]+
    title: str  # unique too
    keys: tuple[Key, ...]
    kind: StepKind = StepKind.UNITS
    drain: tuple[str, ...] = ()
    undrain: tuple[str, ...] = ()
    sides: tuple[str, ...] | None = None
    reload: bool = False
    others: bool = True
    outage: str = ""
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class NeedsReboot:
    """`waits`: the change itself is left for the reboot, for beside what is loaded it would only break.
    `stops`: until then no engine can be started there. `mark` is what the record remembers it by."""

    host: str
    package: str
    change: str  # `580.82.07-0ubuntu1 -> 580.95.05-0ubuntu1`
    why: str
    mark: str = ""  # `580.82.07 -> 580.95.05`
    waits: bool = False
    stops: bool = False

    @property
    def words(self) -> str:
        return f"{self.package} {self.mark or self.change}".strip()


@dataclass(frozen=True)
class Reboots:
    """`hosts` are rebooted by this plan. `refused` are those that are not, although it is allowed, and why;
    `later` packages that are not changed before a reboot, `resting` hosts on which no engine is started."""

    needs: tuple[NeedsReboot, ...] = ()
    hosts: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    later: frozenset[Key] = frozenset()
    resting: frozenset[str] = frozenset()
    blind: bool = False  # nothing is said of the kernel that boots next

    @property
    def left(self) -> tuple[str, ...]:
        """Hosts that need one and get none."""
        return tuple(dict.fromkeys(need.host for need in self.needs if need.host not in self.hosts))

    def of(self, host: str) -> list[NeedsReboot]:
        return [need for need in self.needs if need.host == host]


@dataclass(frozen=True)
class Plan:
    cluster: str
    changes: tuple[Change, ...]
    drift: tuple[Drift, ...]
    restarts: tuple[Restart, ...]
    steps: tuple[Step, ...]
    unreachable: Mapping[str, str]  # host -> why it could not be looked at
    owed: tuple[Owed, ...] = ()
    reboots: Reboots = field(default_factory=Reboots)

    @property
    def empty(self) -> bool:
        """Nothing to change or to reboot, and nothing that only the record would have to learn."""
        return not self.changes and not self.drift and not self.restarts and not self.reboots.hosts

    @property
    def waiting(self) -> frozenset[Key]:
        """What stays as it is until a host has been rebooted that this plan does not reboot."""
        told = self.reboots
        units = {
            c.key
            for c in self.changes
            if c.key.host in told.resting and isinstance(c.desired, Unit) and c.desired.role != "proxy"
        }
        return frozenset(units | {key for key in told.later if key.host not in told.hosts})
