"""`systemd-analyze verify` in a small root tree, where every command that a unit names is there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

# The machine's own units, so that network-online.target and the like are found.
MACHINES_UNITS = Path("/usr/lib/systemd/system")
ETC_UNITS = "etc/systemd/system"


def available() -> str:
    """Why the check cannot run here; empty when it can."""
    if shutil.which("systemd-analyze") is None:
        return "systemd-analyze is missing (`make apt` brings it with systemd-container)"
    return "" if MACHINES_UNITS.is_dir() else f"{MACHINES_UNITS} is missing"


def verify(root: Path, units: Mapping[str, str], executables: Iterable[str]) -> list[str]:
    """What systemd says about the units (name -> text); nothing is the only good answer.

    Warnings leave the exit status at 0, so every line counts.
    """
    shutil.copytree(MACHINES_UNITS, root / MACHINES_UNITS.relative_to("/"), symlinks=True)
    for path in ("/bin/sh", *executables):
        stub = root / path.lstrip("/")
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.touch(0o755)
    folder = root / ETC_UNITS
    folder.mkdir(parents=True)
    for name, text in units.items():
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", f"--root={root}", *units],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return said or ([] if done.returncode == 0 else [f"exit status {done.returncode}"])
