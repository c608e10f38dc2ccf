"""HOST arguments and ssh options, or the hosts of a spec -> how each is reached, and its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pdctl.adopt.observed import Answer, Seen
from pdctl.adopt.places import is_number
from pdctl.errors import SpecError
from pdctl.hosts.reach import Reach, reach
from pdctl.spec.model import Cluster
from pdctl.spec.places import beside
from pdctl.spec.values import ANSIBLE_GROUPS, HOST_NAME

ARGUMENT = re.compile(
    r"(?:(?P<name>[^=@:\[\]\s]+)=)?(?:(?P<user>[^@=\s-][^@=\s]*)@)?"
    r"(?P<address>\[[0-9a-fA-F:.]+\]|[^:@=\s\[\]-][^:@=\s\[\]]*|[0-9a-fA-F]*:[0-9a-fA-F:]+?)(?::(?P<port>\d{1,5}))?"
)
PATHS = ("key", "config", "known_hosts")  # of `ssh`, relative to the spec


@dataclass(frozen=True)
class Target:
    """One host to look at. `name` is None where the host itself must say it."""

    reach: Reach
    name: str | None
    ssh: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)


def targets(arguments: Sequence[str], ssh: Mapping[str, Any], out: Path) -> dict[str, Target]:
    """`[NAME=][USER@]ADDRESS[:PORT]`; paths in `ssh` are relative to the present folder."""
    found: dict[str, Target] = {}
    for argument in arguments:
        match = ARGUMENT.fullmatch(argument)
        if match is None or argument.startswith("-"):
            raise SpecError(
                f"`{argument}` is no host", hint="write it as ADDRESS, USER@ADDRESS:PORT or NAME=ADDRESS"
            )
        own = dict(ssh)
        if match["user"]:
            own["user"] = match["user"]
        if match["port"]:
            own["port"] = int(match["port"])
        address = match["address"].strip("[]")
        at = _reach(argument, address, own, Path.cwd())
        found[argument] = Target(at, match["name"] or _name(address), _for_draft(own, Path.cwd(), out))
    return found


def targets_of(cluster: Cluster, folder: Path, out: Path) -> dict[str, Target]:
    """The hosts of a spec that lies in `folder`, with what it says of them."""
    found = {}
    for host in cluster.hosts:
        ssh = (host.ssh or cluster.ssh).model_dump(exclude_unset=True)
        given = host.model_dump(exclude_unset=True, exclude={"ssh"})
        at = reach(cluster, host, folder)
        found[host.name] = Target(at, host.name, _for_draft(ssh, folder, out), given)
    return found


def named(found: Mapping[str, Target], answers: Mapping[str, Answer]) -> list[Seen]:
    """Hosts by the names they get in the draft: given ones, their own, or a number."""
    taken: set[str] = set()
    rows = []
    for number, (key, target) in enumerate(found.items(), 1):
        own = answers[key].facts.hostname.split(".")[0]
        wanted = [name for name in (target.name, own, f"host{number}") if name and _fits(name)]
        name = next((n for n in wanted if n not in taken), f"host{number}")
        taken.add(name)
        rows.append(Seen(name, target.reach.address, answers[key], target.ssh, target.given))
    return rows


def _name(address: str) -> str | None:
    """The first label of a host's name; an address is none."""
    return None if is_number(address) or address == "localhost" else address.split(".")[0]


def _fits(name: str) -> bool:
    return re.fullmatch(HOST_NAME, name) is not None and name not in ANSIBLE_GROUPS and "_" not in name


def _reach(name: str, address: str, ssh: Mapping[str, Any], folder: Path) -> Reach:
    paths = {key: str(beside(folder, ssh[key])) for key in PATHS if ssh.get(key)}
    return Reach(name=name, address=address, **{**ssh, **paths})


def _for_draft(ssh: Mapping[str, Any], folder: Path, out: Path) -> dict[str, Any]:
    """Relative paths that still lead there from where the draft lies."""
    moved = {
        key: str((folder / ssh[key]).absolute())
        for key in PATHS
        if ssh.get(key) and not str(ssh[key]).startswith(("/", "~")) and folder.absolute() != out.absolute()
    }
    return {key: value for key, value in {**ssh, **moved}.items() if value is not None}
