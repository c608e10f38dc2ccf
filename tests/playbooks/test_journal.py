"""The journal of a host: what began, how it ended, and no work without the lock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_journal
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_journal import append, journaled
from ansible.module_utils.pdctl_lock import take
from ansible.module_utils.pdctl_observe_generations import last_entry

from tests.playbooks.conftest import request_in


def request(root: Path, token: str = "t1") -> dict[str, Any]:
    found = request_in(root, generation=7, step="Restart decoder-1", token=token)
    folder = Path(found["record"]).parent
    folder.mkdir(parents=True, exist_ok=True)
    return found


def locked(root: Path, token: str = "t1") -> Path:
    folder = Path(request(root)["record"]).parent
    take(str(folder), {"token": token, "by": "bob@desk", "command": "pdctl apply"})
    return folder


def entries(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


def test_work_is_written_down_before_and_after(tmp_path: Path) -> None:
    folder = locked(tmp_path)
    did = ["earlier"]
    with journaled(request(tmp_path), did):
        entry = last_entry(str(folder), [])
        assert entry and (entry["event"], entry["step"], entry["by"]) == (
            "begin",
            "Restart decoder-1",
            "ann@desk",
        )
        did.append("restart x")
    begun, ended = entries(folder)
    assert (begun["event"], ended["event"], ended["did"]) == ("begin", "end", ["restart x"])
    assert ended["generation"] == 7 and ended["seconds"] >= 0


def test_what_failed_says_why(tmp_path: Path) -> None:
    folder = locked(tmp_path)
    with pytest.raises(Problem), journaled(request(tmp_path), []):
        raise Problem("no disk")
    assert (entries(folder)[-1]["event"], entries(folder)[-1]["why"]) == ("failed", "no disk")


def test_a_worker_whose_lock_was_taken_over_does_nothing(tmp_path: Path) -> None:
    folder = locked(tmp_path, "t2")
    with (
        pytest.raises(Problem, match=r"lost its lock on this host: bob@desk has it"),
        journaled(request(tmp_path), []),
    ):
        pytest.fail("the work was done")
    assert not (folder / "journal.jsonl").exists()


def test_who_loses_the_lock_in_the_middle_says_nothing_after_the_next_one(tmp_path: Path) -> None:
    """The last line tells what the host was at: that is the next apply's."""
    folder = locked(tmp_path)
    with pytest.raises(Problem), journaled(request(tmp_path), []):
        locked(tmp_path, "t2")
        append(str(folder), {"event": "begin", "step": "of the next"})
        raise Problem("the controller has left")
    assert entries(folder)[-1]["step"] == "of the next"


def test_a_request_without_a_lock_leaves_no_trace(tmp_path: Path) -> None:
    folder = locked(tmp_path)
    with journaled(request(tmp_path, token=""), []):
        pass
    assert not (folder / "journal.jsonl").exists()


def test_a_torn_line_is_none_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    append(str(tmp_path), {"event": "begin", "step": "a", "generation": 1})
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('{"event": "end", "st')
    entry = last_entry(str(tmp_path), [])
    assert entry and entry["step"] == "a"
    append(str(tmp_path), {"event": "begin", "step": "b", "generation": 1})
    entry = last_entry(str(tmp_path), [])
    assert entry and entry["step"] == "b"


def test_it_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdctl_journal, "LIMIT", 4000)
    for number in range(200):
        append(str(tmp_path), {"event": "end", "step": f"s{number}"})
    assert (tmp_path / "journal.jsonl").stat().st_size < 5000
    assert entries(tmp_path)[-1]["step"] == "s199"


def test_it_stays_away_when_the_last_thing_on_the_host_went(tmp_path: Path) -> None:
    folder = locked(tmp_path)
    with journaled(request(tmp_path), []):
        (folder / "journal.jsonl").unlink()
    assert not (folder / "journal.jsonl").exists()


def test_a_journal_that_cannot_be_written_after_the_work_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked(tmp_path)
    did: list[str] = []

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with journaled(request(tmp_path), did):
        monkeypatch.setattr(pdctl_journal, "append", full)
    assert did == ["the journal was not written: No space left on device"]
