"""Restarts that a run owes: on disk before its work, void once another run of the unit is seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible.module_utils.pdctl_record import Record

from tests.playbooks.conftest import needs_root

pytestmark = needs_root  # the record belongs to root

UNIT = "unit:pdctl-chat-prefiller-0.service"


def debt(invocation: str, *causes: str, peers: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"invocation": invocation, "causes": list(causes), "peers": list(peers)}


def record(folder: Path) -> Record:
    return Record(str(folder / "chat/record.json"), "chat")


def row(invocation: str) -> dict[str, Any]:
    return {"kind": "unit", "name": UNIT[5:], "invocation": invocation}


def test_what_is_owed_is_on_disk_at_once_and_read_again(tmp_path: Path) -> None:
    record(tmp_path).owe({UNIT: debt("i1", "a")})
    assert json.loads((tmp_path / "chat/record.json").read_text())["owed"] == {UNIT: debt("i1", "a")}
    assert record(tmp_path).owed == {UNIT: debt("i1", "a")}


def test_debts_of_one_run_add_up_and_those_of_an_earlier_one_are_dropped(tmp_path: Path) -> None:
    kept = record(tmp_path)
    kept.owe({UNIT: debt("i1", "a", peers=("d0",))})
    kept.owe({UNIT: debt("i1", "b", peers=("d0", "d1"))})
    assert kept.owed == {UNIT: debt("i1", "a", "b", peers=("d0", "d1"))}
    kept.owe({UNIT: debt("i2", "c")})
    assert kept.owed == {UNIT: debt("i2", "c")}


def test_a_debt_stays_while_its_run_lasts_and_goes_with_it(tmp_path: Path) -> None:
    kept = record(tmp_path)
    kept.owe({UNIT: debt("i1", "a")})
    kept.settle({UNIT}, {UNIT: row("i1")}, None)
    assert record(tmp_path).owed == {UNIT: debt("i1", "a")}
    kept.settle({UNIT}, {UNIT: row("i2")}, None)
    assert record(tmp_path).owed == {}


def test_without_debts_the_record_is_as_ever(tmp_path: Path) -> None:
    kept = record(tmp_path)
    kept.owe({})
    assert not (tmp_path / "chat").exists()
    kept.settle({UNIT}, {UNIT: row("i1")}, None)
    assert "owed" not in json.loads((tmp_path / "chat/record.json").read_text())
