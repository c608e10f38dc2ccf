"""Words that run a command inside the lab: in its network, or as root in one of its hosts."""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.errors import LabError
from pdctl.lab import cgroup
from pdctl.lab.mounts import is_mounted
from pdctl.lab.paths import LabPaths
from pdctl.lab.state import Host

ROOT_ENVIRONMENT = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root")


def inside_argv(paths: LabPaths, command: Sequence[str]) -> list[str]:
    """`command` on this machine's files, but in the lab's network, where hosts have their addresses."""
    if not is_mounted(paths.lab_netns):
        raise LabError(f"the lab in {paths.directory} is not up", hint="pdctl lab up")
    return ["nsenter", f"--net={paths.lab_netns}", "--", *command]


def enter_argv(paths: LabPaths, host: Host, command: Sequence[str]) -> list[str]:
    """`command` as root in `host`, without ssh."""
    leader = cgroup.leader(cgroup.lab_group(paths.lab_id) / host.name)
    if leader is None:
        raise LabError(f"`{host.name}` is not running", hint=f"pdctl lab boot {host.name}")
    spaces = ("-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w")
    return ["nsenter", "-t", str(leader), *spaces, "env", "-i", *ROOT_ENVIRONMENT, *command]
