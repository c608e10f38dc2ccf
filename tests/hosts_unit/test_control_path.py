"""Private folders of runs: gone after the run, and after a killed one before the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdctl.hosts.control_path import private_folder, remove_left
from pdctl.hosts.local_lock import local_lock

HOLDING = """
import sys
from pdctl.hosts.control_path import private_folder
with private_folder() as folder:
    (folder / "cp").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """For temporary files, with a name that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="p-", dir="/tmp") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield Path(folder)


def other(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another process with a private folder."""
    command = [sys.executable, "-c", HOLDING]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, env=os.environ | {"TMPDIR": str(place)}
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_private_and_gone_after_its_run(place: Path) -> None:
    with private_folder() as folder:
        assert folder.parent == place and folder.stat().st_mode & 0o777 == 0o700
    assert list(place.iterdir()) == []


def test_what_a_killed_process_left_goes_once_the_lock_is_taken_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when nothing is to be done then."""
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    process, left = other(place)
    with process:
        process.send_signal(signal.SIGKILL)
    assert left.is_dir()
    with local_lock("chat"):
        assert list(place.iterdir()) == [place / "state"]


def test_folders_of_running_processes_and_of_others_stay(place: Path) -> None:
    for name in ("pdctl-lab-1", "pdctl-4194305"):  # no process has a number as large as the second
        (place / name).mkdir(mode=0o755)
    process, held = other(place)
    with process:
        remove_left(place)
        assert {path.name for path in place.iterdir()} == {held.name, "pdctl-lab-1", "pdctl-4194305"}
    assert not held.exists()


def test_a_folder_that_is_held_stays_though_its_process_is_not_to_be_seen(place: Path) -> None:
    """As from another container with the same /tmp."""
    process, held = other(place)
    with process:
        hidden = held.rename(place / "pdctl-4194305-abc")
        remove_left(place)
        assert hidden.is_dir()
        hidden.rename(held)
