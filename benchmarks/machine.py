"""The machine and the versions that figures belong to, and where they are kept."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.peers import pyinfra_version
from benchmarks.stage import say


def machine(hosts: int) -> dict[str, Any]:
    cores = os.cpu_count()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**30
    versions = {name: version(name) for name in ("pdctl", "ansible-core", "paramiko")}
    versions["pyinfra"] = pyinfra_version()
    shown = ", ".join(f"{name} {number}" for name, number in versions.items())
    return {
        "cores": cores,
        "memory_gib": memory,
        "kernel": platform.release(),
        "hosts": hosts,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": os.getloadavg(),
        "versions": versions | {"python": platform.python_version()},
        "summary": f"{hosts} virtual hosts and the controller share {cores} cores and {memory} GiB; {shown}",
    }


def write(folder: Path, name: str, result: dict[str, Any]) -> None:
    """As the owner of the checkout, who can then remove it."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}-{result['machine']['at'].replace(':', '')}.json"
    file.write_text(json.dumps(result, indent=1) + "\n")
    owner = folder.parent.stat()
    for path in (folder, file):
        os.chown(path, owner.st_uid, owner.st_gid)
    say(f"wrote {file}")
