"""Which holders of a lock are known to have ended: only those of this machine, and only when it is sure."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pdctl.apply.lock import alive
from pdctl.hosts import holder
from pdctl.hosts.holder import OUTERMOST, owner_document, this_process, why_live, why_stale


@pytest.fixture(autouse=True)
def _machine_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "machine-id").write_text("0123\n")
    monkeypatch.setattr(holder, "MACHINE_ID", tmp_path / "machine-id")


def test_a_process_that_runs_is_not_stale_and_one_that_ended_is() -> None:
    words = [sys.executable, "-c", "print(flush=True) or input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline()  # just after exec the kernel shows no words of it yet
        started = holder._started(other.pid)
        assert started
        owner = replace(this_process(), pid=other.pid, started=started)
        assert why_stale(owner) == ""
        shown = f"`{shlex.join(words)}`"
        assert why_live(owner) == f"its process {other.pid} still runs on this machine: {shown}"
        assert why_live(replace(owner, machine="another")) == ""
        assert alive([owner, owner, replace(owner, boot="another")]) == [why_live(owner)]
        assert other.stdin
        other.stdin.close()
        other.wait()
    assert why_stale(owner) == f"its process {other.pid} on this machine has ended"
    assert why_live(owner) == ""


def test_a_pid_that_is_used_again_is_another_process() -> None:
    me = this_process()
    assert why_stale(me) == ""
    assert "has ended" in why_stale(replace(me, started=me.started - 1))


@pytest.mark.parametrize("other", [{"machine": "another"}, {"machine": ""}, {"pid_namespace": "pid:[1]"}])
def test_what_another_machine_or_container_does_nobody_here_knows(other: dict[str, str]) -> None:
    assert why_stale(replace(this_process(), pid=2**22 + 1, **other)) == ""  # type: ignore[arg-type]


def test_after_a_restart_of_the_machine_nothing_of_before_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "_pid_namespace", lambda: OUTERMOST)
    before = replace(this_process(), boot="another", pid=os.getpid())
    assert why_stale(before) == "this machine has been restarted since"


def test_containers_share_machine_ids_so_another_boot_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "_pid_namespace", lambda: "pid:[4026532800]")
    assert why_stale(replace(this_process(), boot="another")) == ""


def test_a_machine_without_an_id_takes_nothing_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "MACHINE_ID", tmp_path / "none")
    assert why_stale(replace(this_process(), pid=2**22 + 1)) == ""


def test_the_token_is_new_each_time_and_no_age_is_written_down() -> None:
    one, two = owner_document(this_process()), owner_document(this_process())
    assert one["token"] != two["token"] and "age_s" not in one
    assert one["by"] and one["command"] and one["pid"] == os.getpid()
