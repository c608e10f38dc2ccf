"""The lock of this machine: one pdctl per cluster, freed whatever happens to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pdctl.errors import LockError
from pdctl.hosts.local_lock import local_lock

HOLDER = """
import sys
from pdctl.hosts.local_lock import local_lock
with local_lock("chat"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_a_second_pdctl_is_told_who_holds_the_lock() -> None:
    with _holder() as holder:
        with (
            pytest.raises(
                LockError, match=f"another pdctl works on `chat`: process {holder.pid}, `-c by-hand`"
            ),
            local_lock("chat"),
        ):
            pass
        with local_lock("another-cluster"):
            pass
        holder.communicate("")
    with local_lock("chat"):
        pass


def test_a_killed_pdctl_leaves_no_lock() -> None:
    with _holder() as holder:
        holder.kill()
        holder.wait()
    with local_lock("chat"):
        pass


def test_the_lock_is_free_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), local_lock("chat"):
        raise ZeroDivisionError
    with local_lock("chat"):
        pass


def _holder() -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HOLDER, "by-hand"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process
