import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pdctl.errors import LabError
from pdctl.lab import machine
from pdctl.lab.locking import locked
from pdctl.lab.machine import claim_watches, missing_tools, release_watches
from pdctl.lab.processes import Process, alive, run, tail


@pytest.fixture
def limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the machine's inotify limit."""
    file = tmp_path / "max_user_instances"
    file.write_text("128\n")
    monkeypatch.setattr(machine, "WATCHES", file)
    monkeypatch.setattr(machine, "SHARED", tmp_path / "shared")
    return file


def test_each_missing_tool_is_named_by_its_package(tmp_path: Path) -> None:
    assert missing_tools(str(tmp_path)) == (
        "mmdebstrap",
        "systemd-container",
        "iproute2",
        "openssh-client",
        "util-linux",
    )
    for tool in ("mmdebstrap", "systemd-nspawn", "ip", "ssh-keygen"):
        (tmp_path / tool).touch(mode=0o755)
    assert missing_tools(str(tmp_path)) == ("util-linux",)


@pytest.mark.parametrize("order", list(itertools.permutations(["a", "b", "c"])))
def test_the_inotify_limit_serves_all_labs_and_is_restored_by_the_last_whatever_the_order(
    limit: Path, order: tuple[str, ...]
) -> None:
    for lab, hosts in {"a": 2, "b": 8, "c": 1}.items():
        claim_watches(lab, hosts)
    assert int(limit.read_text()) == 128 + 24 * 11
    for lab in order:
        release_watches(lab)
    assert int(limit.read_text()) == 128
    assert not machine.SHARED.exists()


def test_claiming_again_counts_once_and_releasing_nothing_changes_nothing(limit: Path) -> None:
    release_watches("a")
    claim_watches("a", 2)
    claim_watches("a", 4)
    assert int(limit.read_text()) == 128 + 24 * 4
    release_watches("b")
    assert int(limit.read_text()) == 128 + 24 * 4
    release_watches("a")
    assert int(limit.read_text()) == 128


def test_a_limit_that_the_user_changed_meanwhile_is_kept(limit: Path) -> None:
    claim_watches("a", 2)
    limit.write_text("9000")
    release_watches("a")
    assert int(limit.read_text()) == 9000


def test_a_claim_killed_before_it_raised_the_limit_does_not_shift_the_original(limit: Path) -> None:
    machine.SHARED.mkdir()
    (machine.SHARED / "inotify.json").write_text(json.dumps({"found": 128, "set": 176, "hosts": {"a": 2}}))
    claim_watches("a", 2)
    assert int(limit.read_text()) == 176
    release_watches("a")
    assert int(limit.read_text()) == 128


def test_a_lock_held_elsewhere_is_reported_once_and_given_up_on(tmp_path: Path) -> None:
    waits: list[str] = []
    with locked(tmp_path / "lock"), pytest.raises(LabError, match="another process holds"):  # noqa: SIM117
        with locked(tmp_path / "lock", lambda: waits.append("waiting"), patience=0.1):
            pass
    assert waits == ["waiting"]


def test_a_lock_can_be_removed_with_its_directory_while_others_wait(tmp_path: Path) -> None:
    lock = tmp_path / "lab" / "lock"
    holding, entered = threading.Event(), threading.Event()

    def wait_for_it() -> None:
        with locked(lock, holding.set, patience=10):
            entered.set()

    other = threading.Thread(target=wait_for_it)
    with locked(lock):
        other.start()
        assert holding.wait(10)
        lock.unlink()
        lock.parent.rmdir()
        assert not entered.is_set()
    other.join(10)
    assert entered.is_set() and lock.exists()


def test_a_process_is_recognised_and_neither_a_zombie_nor_a_successor_is_taken_for_it() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ticks = int(Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    assert alive(Process(child.pid, ticks))
    assert not alive(Process(child.pid, ticks - 1))
    assert not alive(None)
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, but not reaped
    assert not alive(Process(child.pid, ticks))
    child.wait()
    assert not alive(Process(child.pid, ticks))


def test_a_failing_tool_is_quoted_with_its_own_words() -> None:
    with pytest.raises(LabError, match=r"`sh -c 'echo no room >&2; exit 3'` failed: no room"):
        run("sh", "-c", "echo no room >&2; exit 3")
    with pytest.raises(LabError, match="exit status 3"):
        run("sh", "-c", "exit 3")


def test_the_end_of_a_log_is_shown(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntwo\n\xff three\n")
    assert tail(tmp_path / "log", 2) == "two\n� three"
    assert tail(tmp_path / "none") == "(no log)"
