"""Cluster -> Reach: how one host is reached, with every path made absolute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pdctl.spec.model import Cluster, Host
from pdctl.spec.places import beside

# The interpreter of the probe and of Ansible's modules: the distribution's own, for both alike.
PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class Reach:
    """What pdctl was told about reaching a host; what is None is left to ssh's own configuration."""

    name: str
    address: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    jump: str | None = None
    config: str | None = None
    known_hosts: str | None = None
    connection: Literal["ssh", "local"] = "ssh"
    become: bool = True


def reach(cluster: Cluster, host: Host, folder: Path) -> Reach:
    """How `host` is reached; relative paths are resolved against `folder`, where the spec lies."""
    ssh = host.ssh or cluster.ssh
    return Reach(
        name=host.name,
        address=host.address or host.name,
        user=ssh.user,
        port=ssh.port,
        key=_path(ssh.key, folder),
        jump=ssh.jump,
        config=_path(ssh.config, folder),
        known_hosts=_path(ssh.known_hosts, folder),
        connection=ssh.connection,
        become=ssh.become,
    )


def _path(value: str | None, folder: Path) -> str | None:
    return None if value is None else str(beside(folder.absolute(), value))
