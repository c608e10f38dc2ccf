"""One control group per lab, so that ending a lab ends exactly what it started."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pdctl.errors import LabError
from pdctl.lab.mounts import MOUNTINFO


def lab_group(lab_id: str) -> Path:
    """The lab's own group in the machine's cgroup2 hierarchy, wherever that is mounted."""
    for line in MOUNTINFO.read_text().splitlines():
        left, right = line.split(" - ", 1)
        if right.split()[0] == "cgroup2":
            return Path(left.split()[4]) / lab_id
    raise LabError("no cgroup2 file system is mounted", hint="mount -t cgroup2 none /sys/fs/cgroup/unified")


def populated(group: Path) -> bool:
    return group.is_dir() and "populated 1" in (group / "cgroup.events").read_text()


def end(group: Path, timeout: float = 20.0) -> None:
    """Kill every process of `group`, also what was forked twice, and remove the group."""
    if not group.is_dir():
        return
    (group / "cgroup.kill").write_text("1")
    deadline = time.monotonic() + timeout
    while populated(group):
        if time.monotonic() > deadline:
            raise LabError(f"processes stay in the cgroup `{group}`", hint="look for state D in `ps -e`")
        time.sleep(0.01)
    for path, _, _ in os.walk(group, topdown=False):
        Path(path).rmdir()


def leader(group: Path) -> int | None:
    """The pid, on this machine, of the process 1 that systemd-nspawn started in `group`."""
    payload = group / "payload"
    for procs in (payload / "init.scope/cgroup.procs", payload / "cgroup.procs"):
        try:
            for pid in procs.read_text().split():
                if _own_number(int(pid)) == 1:
                    return int(pid)
        except (FileNotFoundError, ProcessLookupError, OSError):  # booting, or just gone
            continue
    return None


def _own_number(pid: int) -> int:
    """The number the process has in its own pid namespace."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1])
