"""pdctl as a user starts it: a process of its own, in a folder of the test's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PDCTL = (sys.executable, "-m", "pdctl")
DEADLINE_S = 60


def environment(folder: Path) -> dict[str, str]:
    """As here, but nothing is read from or kept in the home of who runs the tests."""
    return os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }


def pdctl(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PDCTL, *words],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
