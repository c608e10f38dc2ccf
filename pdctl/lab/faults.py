"""Faults a test or a user can cause on one host, and what undoes them."""

from __future__ import annotations

import time
from dataclasses import replace

from pdctl.errors import LabError
from pdctl.lab import cgroup, hosts
from pdctl.lab.enter import enter_argv
from pdctl.lab.paths import LabPaths
from pdctl.lab.processes import run
from pdctl.lab.ssh import make_key
from pdctl.lab.state import Host, LabState


def poweroff(paths: LabPaths, host: Host) -> Host:
    """Pull the power: every process gets SIGKILL at once; the disks keep what was written."""
    cgroup.end(cgroup.lab_group(paths.lab_id) / host.name)
    return replace(host, process=None)


def reboot(paths: LabPaths, host: Host, timeout: float) -> None:
    """An orderly reboot; returns when the host has a new process 1."""
    group = cgroup.lab_group(paths.lab_id) / host.name
    before = cgroup.leader(group)
    run(*enter_argv(paths, host, ["systemctl", "--no-block", "reboot"]))
    deadline = time.monotonic() + timeout
    while cgroup.leader(group) in (None, before):
        if time.monotonic() > deadline:
            raise LabError(
                f"`{host.name}` did not reboot within {timeout:g} s", hint=f"read {paths.console(host.name)}"
            )
        time.sleep(0.05)


def reset(paths: LabPaths, state: LabState, host: Host) -> Host:
    """Forget every change of the host, its disks and its host key too; leaves it powered off."""
    off = poweroff(paths, host)
    hosts.forget_files(paths, host.name)
    hosts.make_files(paths, state, off)
    return off


def rekey(paths: LabPaths, host: Host) -> None:
    """Give the host another ssh host key and tell nobody."""
    keys = paths.root(host.name) / "etc/ssh"
    for path in keys.glob("ssh_host_*"):
        path.unlink()
    make_key(keys / "ssh_host_ed25519_key", host.name)
    run(*enter_argv(paths, host, ["systemctl", "restart", "ssh"]))


def shrink(paths: LabPaths, host: Host, path: str, size: str) -> None:
    """Mount an empty file system of `size` on the host's `path`, to play a full disk; `umount` undoes it."""
    options = f"size={size},mode=755"
    run(*enter_argv(paths, host, ["mount", "-t", "tmpfs", "-o", options, "pdctl-lab-small", path]))
