"""What a lab has made so far, kept in its directory: written before each thing is made, so none is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pdctl.errors import LabError
from pdctl.lab.processes import Process

SUBNET = "198.18.0"  # RFC 2544 benchmark range; exists only inside the lab's own network namespace
GATEWAY = f"{SUBNET}.1"
FIRST_NUMBER = 10  # below it: the gateway and room for more services
LAST_NUMBER = 254
ROOM = LAST_NUMBER - FIRST_NUMBER + 1


@dataclass(frozen=True)
class Bind:
    """A path of the machine shown read-only inside every host."""

    source: str
    target: str


@dataclass(frozen=True)
class Host:
    name: str
    number: int
    process: Process | None = None

    @property
    def address(self) -> str:
        return f"{SUBNET}.{self.number}"


@dataclass(frozen=True)
class Service:
    """A web server for `path` at the lab's gateway."""

    url: str
    path: str
    process: Process


@dataclass(frozen=True)
class LabState:
    cache: str | None = None
    tree: str | None = None
    binds: tuple[Bind, ...] = ()
    disks: tuple[str, ...] = ()
    hosts: Mapping[str, Host] = field(default_factory=dict)
    services: tuple[Service, ...] = ()

    def host(self, name: str) -> Host:
        if name not in self.hosts:
            have = ", ".join(self.hosts) or "none"
            raise LabError(f"the lab has no host `{name}`; it has: {have}", hint="see `pdctl lab status`")
        return self.hosts[name]

    def with_host(self, host: Host) -> LabState:
        return replace(self, hosts={**self.hosts, host.name: host})

    def with_new_hosts(self, names: list[str]) -> LabState:
        """Give each name that is not there yet the next free address."""
        hosts = dict(self.hosts)
        for name in names:
            number = 1 + max((host.number for host in hosts.values()), default=FIRST_NUMBER - 1)
            if name not in hosts and number > LAST_NUMBER:
                raise LabError(f"the lab's network has room for {ROOM} hosts", hint="pdctl lab down")
            hosts.setdefault(name, Host(name, number))
        return replace(self, hosts=hosts)


def parse_bind(text: str) -> Bind:
    """`SRC:DST` as on the command line; a relative SRC starts from the current directory."""
    source, separator, target = text.rpartition(":")
    if not separator or not source:
        raise LabError(f"`{text}` is not a bind", hint="write SRC:DST, e.g. ./bundle:/opt/pdctl/bundle")
    return Bind(str(Path(source).expanduser().resolve()), target)


def read_state(path: Path) -> LabState:
    """The recorded state; an empty one where nothing was recorded."""
    if not path.exists():
        return LabState()
    try:
        data = json.loads(path.read_text())
        return LabState(
            cache=data["cache"],
            tree=data["tree"],
            binds=tuple(Bind(**bind) for bind in data["binds"]),
            disks=tuple(data["disks"]),
            hosts={
                name: Host(name, entry["number"], _process(entry)) for name, entry in data["hosts"].items()
            },
            services=tuple(Service(s["url"], s["path"], Process(**s["process"])) for s in data["services"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(
            f"`{path}` is not the state of a lab: {error!r}", hint="pdctl lab down, then pdctl lab up"
        ) from error


def write_state(path: Path, state: LabState) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(state), indent=1) + "\n")
    new.replace(path)


def _process(entry: Mapping[str, Any]) -> Process | None:
    return Process(**entry["process"]) if entry["process"] else None
