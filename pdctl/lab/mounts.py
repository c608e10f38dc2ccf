"""What is mounted where, and unmounting a whole subtree."""

from __future__ import annotations

import re
from pathlib import Path

from pdctl.lab.processes import run

MOUNTINFO = Path("/proc/self/mountinfo")


def mounts_under(path: Path, mountinfo: str | None = None) -> list[Path]:
    """Every mount point at or below `path`, deepest first, one entry a mount."""
    text = MOUNTINFO.read_text() if mountinfo is None else mountinfo
    points = [Path(_plain(line.split()[4])) for line in text.splitlines()]
    return sorted((p for p in points if p.is_relative_to(path)), key=lambda p: len(p.parts), reverse=True)


def is_mounted(path: Path) -> bool:
    return path in mounts_under(path)


def is_lower_layer(path: Path, mountinfo: str | None = None) -> bool:
    """Whether some overlay still shows the files of `path`."""
    text = MOUNTINFO.read_text() if mountinfo is None else mountinfo
    options = (_plain(line.rsplit(" ", 1)[1]).split(",") for line in text.splitlines())
    return any(f"lowerdir={path}" in words for words in options)


def unmount_under(path: Path) -> None:
    for mount in mounts_under(path):
        run("umount", mount, hint=f"see who uses it: fuser -vm {mount}")


def _plain(field: str) -> str:
    """mountinfo writes a space as `\\040`."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
