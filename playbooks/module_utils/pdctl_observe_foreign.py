"""What others do on the ports and GPUs that are ours: told, never changed."""

from __future__ import annotations

import ipaddress
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

from ansible.module_utils.pdctl_namespace import is_own_unit
from ansible.module_utils.pdctl_observe_facts import GPU_PATIENCE_S
from ansible.module_utils.pdctl_rows import Row
from ansible.module_utils.pdctl_sockets import command_of, holders, listening, sockets_of, unit_of

GROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")  # either layout
# nvidia-smi --help-query-compute-apps
APP_FIELDS = ("gpu_uuid", "pid", "used_memory")


def foreign(
    claims: Row, cluster: str, units: Iterable[str], gpus: list[dict[str, Any]], notes: list[str]
) -> list[Row]:
    """A row for each port and each GPU that somebody else's process is on.

    `claims`: `ports` as [port, address, instance], `gpus` as index -> instance. Only root sees whose a socket
    is, so that others learn nothing here.
    """
    if os.geteuid() != 0:
        return []
    try:
        return [
            *foreign_ports(claims.get("ports", []), cluster, units),
            *foreign_gpus(claims.get("gpus", {}), cluster, gpus, notes),
        ]
    except OSError as error:  # no plan rests on it
        notes.append(f"foreign processes: {error.strerror or error}")
        return []


def foreign_ports(claimed: list[list[Any]], cluster: str, units: Iterable[str]) -> list[Row]:
    """Listening sockets that no unit of the cluster holds."""
    wanted = {port: (address, instance) for port, address, instance in claimed}
    sockets = {
        inode: port
        for port, address, inode in listening()
        if port in wanted and meets(str(address), wanted[port][0])
    }
    for unit in units if sockets else ():
        for pid in members(unit):
            for inode in sockets_of(pid):
                sockets.pop(inode, None)
    found: dict[int, Row] = {}
    for pid in holders(set(sockets)) if sockets else ():
        if not is_own_unit(unit_of(pid), cluster):
            for inode in sockets_of(pid) & sockets.keys():
                port = sockets[inode]
                found.setdefault(port, told("port", str(port), wanted[port][1], pid))
    return [found[port] for port in sorted(found)]


def meets(one: str, two: str) -> bool:
    """Whether two sockets of these addresses would be in each other's way."""
    first, second = ipaddress.ip_address(one), ipaddress.ip_address(two)
    return first.is_unspecified or second.is_unspecified or first == second


def members(unit: str) -> list[int]:
    """Processes of a service in systemd's own slice; others are found the long way."""
    for root in GROUPS:
        try:
            with open(f"{root}/system.slice/{unit}/cgroup.procs", encoding="ascii") as handle:
                return [int(line) for line in handle]
        except OSError:
            continue
    return []


def foreign_gpus(
    claimed: dict[str, str], cluster: str, gpus: list[dict[str, Any]], notes: list[str]
) -> list[Row]:
    """Compute processes on our GPUs that belong to no unit of the cluster."""
    tool = shutil.which("nvidia-smi")
    if not claimed or not gpus or tool is None:
        return []
    query = [tool, "--query-compute-apps=" + ",".join(APP_FIELDS), "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            query, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=GPU_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        notes.append(f"nvidia-smi: no answer about processes within {GPU_PATIENCE_S} s")
        return []
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        notes.append("nvidia-smi: " + (text.strip().splitlines() or [f"exit status {done.returncode}"])[0])
        return []
    index = {gpu["uuid"]: str(gpu["index"]) for gpu in gpus}
    return [
        dict(told("gpu", index[uuid], claimed[index[uuid]], pid), memory_mib=memory)
        for uuid, pid, memory in parse_apps(text)
        if index.get(uuid) in claimed
        and os.path.exists(f"/proc/{pid}")
        and not is_own_unit(unit_of(pid), cluster)
    ]


def parse_apps(text: str) -> list[tuple[str, int, int | None]]:
    """(GPU's uuid, pid, MiB) of `nvidia-smi --format=csv,noheader,nounits`; memory may be `[N/A]`."""
    rows = [[value.strip() for value in line.split(",")] for line in text.splitlines()]
    return [
        (row[0], int(row[1]), int(row[2]) if row[2].isdigit() else None)
        for row in rows
        if len(row) == len(APP_FIELDS) and row[1].isdigit()
    ]


def told(kind: str, subject: str, instance: str, pid: int) -> Row:
    """The process by its short name: a command line may hold secrets."""
    return {
        "kind": kind,
        "subject": subject,
        "instance": instance,
        "pid": pid,
        "process": command_of(pid),
        "user": user_of(pid),
        "unit": unit_of(pid),
    }


def user_of(pid: int) -> str:
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
