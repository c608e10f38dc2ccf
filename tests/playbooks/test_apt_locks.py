"""Locks of apt: looked at without being taken, waited for, and told with their holder when the time is up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.module_utils.pdctl_apt_locks import holder, wait_for_locks
from ansible.module_utils.pdctl_difference import Problem

HOLD = """
import fcntl, sys
handle = open(sys.argv[1], "r+")
fcntl.lockf(handle, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock-frontend"
    path.touch()
    return path


@pytest.fixture
def other(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds it until it is told a line."""
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_free_lock_or_none_at_all_holds_nobody_up(lock: Path, tmp_path: Path) -> None:
    assert holder(str(lock)) is None and holder(str(tmp_path / "none")) is None
    wait_for_locks(0, [str(lock), str(tmp_path / "none")])
    assert not (tmp_path / "none").exists()


def test_the_holder_is_told_with_its_command(lock: Path, other: subprocess.Popen[str]) -> None:
    found = holder(str(lock))
    assert found is not None and found.pid == other.pid
    assert found.command.startswith(sys.executable) and str(lock) in str(found)


def test_a_limit_that_passes_names_both_and_touches_neither(lock: Path, other: subprocess.Popen[str]) -> None:
    with pytest.raises(Problem, match=rf"after 0\.2 s {lock} is still held by process {other.pid} \("):
        wait_for_locks(0.2, [str(lock)])
    assert lock.exists() and other.poll() is None


def test_it_waits_until_the_lock_is_let_go(lock: Path, other: subprocess.Popen[str]) -> None:
    other.communicate("go\n")
    wait_for_locks(20, [str(lock)])
    assert holder(str(lock)) is None
