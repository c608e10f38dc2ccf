"""What ssh needs to reach the lab's hosts: a key, their host keys, and a config for OpenSSH and paramiko."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from pdctl.lab import connect
from pdctl.lab.paths import LabPaths
from pdctl.lab.processes import run
from pdctl.lab.state import SUBNET, Host

USER = "ops"


def make_key(path: Path, comment: str) -> None:
    """An ed25519 key pair, unless there is one; ssh-keygen writes the public half last."""
    if not path.with_suffix(".pub").exists():
        path.unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path)


def write_ssh_files(paths: LabPaths, hosts: Iterable[Host]) -> None:
    """known_hosts and ssh_config of every host made so far."""
    made = [host for host in hosts if host_key(paths, host.name).exists()]
    lines = [known_hosts_line(host, host_key(paths, host.name).read_text()) for host in made]
    paths.known_hosts.write_text("".join(lines))
    paths.ssh_config.write_text(ssh_config(paths, made))


def host_key(paths: LabPaths, name: str) -> Path:
    return paths.upper(name) / "etc/ssh/ssh_host_ed25519_key.pub"


def known_hosts_line(host: Host, public_key: str) -> str:
    return f"{host.name},{host.address} {' '.join(public_key.split()[:2])}\n"


def ssh_config(paths: LabPaths, hosts: Iterable[Host], python: str = sys.executable) -> str:
    """`Host` blocks by name and by address.

    The ProxyCommand is a file, not `-m`, and starts without site packages: a connection waits 20 ms for it.
    OpenSSH takes the socket from it (ProxyUseFdpass); paramiko, which cannot, talks through its pipes.
    """
    hosts = tuple(hosts)
    command = [python, "-I", "-S", connect.__file__, str(paths.lab_netns)]
    lines = [
        f"Host {' '.join(host.name for host in hosts)} {SUBNET}.*",
        f"  User {USER}",
        f'  IdentityFile "{paths.key}"',
        "  IdentitiesOnly yes",
        f'  UserKnownHostsFile "{paths.known_hosts}"',
        "  GlobalKnownHostsFile /dev/null",
        "  StrictHostKeyChecking yes",
        "  BatchMode yes",
        "  ConnectTimeout 5",
        "  ServerAliveInterval 5",  # without it a command on a host whose cable is cut hangs for ever
        "  ServerAliveCountMax 2",
        f"  ProxyCommand {shlex.join(command)} %h %p",
        "  ProxyUseFdpass yes",
    ]
    for host in hosts:
        lines += [f"Host {host.name}", f"  HostName {host.address}"]
    return "\n".join(lines) + "\n"
