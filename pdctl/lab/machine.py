"""What this machine must offer before a lab can be made, and the one limit that labs raise on it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from pdctl.errors import LabError
from pdctl.lab.locking import locked

# A command of each Debian package the lab runs.
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "systemd-container": "systemd-nspawn",
    "iproute2": "ip",
    "openssh-client": "ssh-keygen",
    "util-linux": "nsenter",
}
WATCHES = Path("/proc/sys/fs/inotify/max_user_instances")
WATCHES_PER_HOST = 24  # measured: 50 hosts need fewer than 128 + 24 each; the kernel's default is 128 in all
SHARED = Path("/run/pdctl-lab")  # one file for all labs of the machine: each adds its part to the limit


def missing_tools(path: str | None = None) -> tuple[str, ...]:
    """The Debian packages to install before a lab can be made."""
    search = path if path is not None else os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return tuple(package for package, tool in TOOLS.items() if not shutil.which(tool, path=search))


def require_machine() -> None:
    """Refuse early what would fail half-way."""
    if os.geteuid() != 0:
        raise LabError(
            "a lab mounts file systems and makes namespaces, which needs root", hint="sudo pdctl lab ..."
        )
    if missing := missing_tools():
        packages = " ".join(missing)
        raise LabError(
            f"missing packages: {packages}",
            hint=f"apt-get update && apt-get install -y --no-install-recommends {packages}",
        )


def claim_watches(lab_id: str, hosts: int) -> None:
    """Raise the machine's inotify limit by what `hosts` hosts of this lab need."""
    _share({lab_id: hosts})


def release_watches(lab_id: str) -> None:
    """Take back this lab's part; the last lab restores the value that the first one found."""
    if SHARED.exists():
        _share({lab_id: 0})


def _share(change: dict[str, int]) -> None:
    file = SHARED / "inotify.json"
    with locked(SHARED / "lock"):
        found = int(WATCHES.read_text())
        first: dict[str, Any] = {"found": found, "set": found, "hosts": {}}
        data = json.loads(file.read_text()) if file.exists() else first
        hosts = {lab: count for lab, count in {**data["hosts"], **change}.items() if count}
        original = data["found"] if found == data["set"] else found  # somebody else's change wins
        value = original + WATCHES_PER_HOST * sum(hosts.values())
        if hosts:  # recorded before it is set: whoever comes after a kill in between still finds the original
            file.write_text(json.dumps({"found": original, "set": value, "hosts": hosts}))
        if value != found:
            WATCHES.write_text(str(value))
        if not hosts:
            shutil.rmtree(SHARED)
