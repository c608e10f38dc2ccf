"""Units that no health gate let through stay in the record as unfinished, until one does or they are gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_apply
from ansible.module_utils.pdctl_apply import NOT_YET, SOON, Work
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_record import Record

from tests.playbooks.conftest import file_row, needs_root, request_in

pytestmark = needs_root  # the record belongs to root

ONE, TWO = ("unit:pdctl-chat-decoder-0.service", "unit:pdctl-chat-decoder-1.service")
WHY = "did not become healthy in 10 s"
THERE = {ONE: {"kind": "unit", "name": ONE[5:], "invocation": "i1", "active": "active"}}


def record(folder: Path) -> Record:
    return Record(str(folder / "chat/record.json"), "chat")


def unhealthy(folder: Path) -> Record:
    kept = record(folder)
    kept.settle({ONE}, THERE, None, (), {ONE: WHY})
    return record(folder)


def pending(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "chat/record.json").read_text())["pending"]
    return found


def test_a_unit_that_was_not_seen_healthy_stays_pending_and_is_recorded_as_it_runs(tmp_path: Path) -> None:
    kept = unhealthy(tmp_path)
    assert pending(tmp_path) == [{"id": ONE, "created": True, "secret": False, "why": WHY}]
    assert kept.rows[ONE]["invocation"] == "i1"


def test_once_a_gate_lets_it_through_it_is_finished(tmp_path: Path) -> None:
    unhealthy(tmp_path).settle({ONE}, THERE, None, (), {})
    assert pending(tmp_path) == []


def test_what_is_deleted_or_gone_waits_for_no_gate(tmp_path: Path) -> None:
    unhealthy(tmp_path).settle({ONE}, THERE, None, {ONE}, {ONE: WHY})
    assert pending(tmp_path) == []
    kept = unhealthy(tmp_path)
    kept.rows[ONE]["created"] = False
    kept.settle({ONE}, {}, None, (), {ONE: WHY})
    assert pending(tmp_path) == []


def test_a_step_without_the_unit_leaves_it_pending_with_the_reason(tmp_path: Path) -> None:
    work = Work(request_in(tmp_path), {}, [])
    work.record = unhealthy(tmp_path)
    work.open = dict(work.record.pending)
    assert work.unproven({}) == {ONE: WHY}


def test_units_of_a_step_are_unproven_until_they_served_and_again_when_they_ended_at_once(
    tmp_path: Path,
) -> None:
    work = Work(request_in(tmp_path), {}, [])
    work.units = [{"kind": "unit", "name": key[5:]} for key in (ONE, TWO)]
    work.reached = True
    work.why = {ONE[5:]: WHY, TWO[5:]: NOT_YET}
    assert work.unproven({}) == {ONE: WHY, TWO: NOT_YET}
    work.served = {ONE[5:], TWO[5:]}
    assert work.unproven({TWO: {"active": "activating/auto-restart"}}) == {TWO: SOON}


def test_a_unit_whose_files_could_not_be_put_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it runs with has been proven before, and nothing was done to it."""
    monkeypatch.setattr(
        pdctl_apply, "observe_rows", lambda rows, *_: [r for r in rows if r["kind"] == "unit"]
    )
    (tmp_path / "etc/decoder-0.env").mkdir(parents=True)
    work = Work(request_in(tmp_path, put=[file_row(tmp_path / "etc/decoder-0.env", b"A=1")]), {}, [])
    work.units = [dict(THERE[ONE], name=ONE[5:])]
    with pytest.raises(Problem, match="is a directory where a file must be"):
        pdctl_apply.perform(work, [*work.put, *work.units])
    assert [row["id"] for row in work.record.pending.values()] == []
    assert json.loads(Path(work.request["record"]).read_text())["pending"] == []
