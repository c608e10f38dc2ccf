"""State -> what of the lab runs right now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pdctl.lab import cgroup, network
from pdctl.lab.paths import LabPaths
from pdctl.lab.processes import alive
from pdctl.lab.ssh import USER
from pdctl.lab.state import LabState


@dataclass(frozen=True)
class HostStatus:
    name: str
    address: str
    power: Literal["on", "off"]
    network: Literal["plugged", "cut"]
    pid: int | None  # of the host's process 1, as this machine numbers it


@dataclass(frozen=True)
class ServiceStatus:
    url: str
    path: str
    running: bool


@dataclass(frozen=True)
class LabStatus:
    directory: str
    tree: str | None
    user: str
    ssh_config: str
    hosts: tuple[HostStatus, ...]
    services: tuple[ServiceStatus, ...]


def lab_status(paths: LabPaths, state: LabState) -> LabStatus:
    """Power and cable of every host, looked up now."""
    cables = network.plugged(paths)
    found = [
        HostStatus(
            host.name,
            host.address,
            "on" if alive(host.process) else "off",
            "plugged" if cables.get(network.cable(host)) else "cut",
            cgroup.leader(cgroup.lab_group(paths.lab_id) / host.name),
        )
        for host in state.hosts.values()
    ]
    services = (ServiceStatus(s.url, s.path, alive(s.process)) for s in state.services)
    return LabStatus(
        str(paths.directory), state.tree, USER, str(paths.ssh_config), tuple(found), tuple(services)
    )
