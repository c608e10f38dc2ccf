"""What follows a changed file: once, only for its content, owed until it is done, also by the next run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_effects
from ansible.module_utils.pdctl_apply import converge
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_effects import EFFECTS, effect_of
from ansible.module_utils.pdctl_record import Record

from pdctl.knowledge.effects import EFFECTS as CONTROLLERS
from tests.playbooks.conftest import file_row, needs_root, request_in

pytestmark = needs_root


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files ask for a command, which counts, and fails while there is a file `broken`."""
    watched = tmp_path / "watched"
    watched.mkdir()
    program = tmp_path / "effect"
    program.write_text(
        f"#!/bin/sh\n[ ! -e {tmp_path}/broken ] || {{ echo disk full >&2; exit 1; }}\n"
        f"echo x >> {tmp_path}/calls\n"
    )
    program.chmod(0o755)
    monkeypatch.setitem(pdctl_effects.EFFECTS, f"{watched}/", (str(program),))
    return watched


def calls(folder: Path) -> int:
    path = folder.parent / "calls"
    return len(path.read_text().splitlines()) if path.exists() else 0


def put(folder: Path, *rows: dict[str, Any], dry: bool = False) -> list[str]:
    did: list[str] = []
    converge(request_in(folder.parent, put=list(rows)), {}, dry, did)
    return did


def pending(folder: Path) -> list[dict[str, Any]]:
    record = json.loads((folder.parent / "var/lib/pdctl/chat/record.json").read_text())
    found: list[dict[str, Any]] = record["pending"]
    return found


def test_both_sides_have_the_same_table() -> None:
    assert EFFECTS == CONTROLLERS
    assert effect_of("/etc/modprobe.d/x.conf") and not effect_of("/etc/modprobe.conf")


def test_it_follows_once_for_all_files_and_not_again(folder: Path) -> None:
    rows = [file_row(folder / name) for name in ("a", "b")]
    did = put(folder, *rows)
    assert calls(folder) == 1
    assert did[-1] == f"run {folder.parent}/effect: {folder}/a, {folder}/b changed"
    assert put(folder, *rows) == [] and calls(folder) == 1


def test_owner_and_mode_alone_ask_for_nothing(folder: Path) -> None:
    put(folder, file_row(folder / "a"))
    did = put(folder, file_row(folder / "a", mode="0600"))
    assert len(did) == 1 and calls(folder) == 1


def test_a_dry_run_foretells_it(folder: Path) -> None:
    assert put(folder, file_row(folder / "a"), dry=True)[-1].startswith(f"run {folder.parent}/effect")
    assert calls(folder) == 0 and not (folder / "a").exists()


def test_one_that_fails_is_owed_and_done_by_the_next_run(folder: Path) -> None:
    (folder.parent / "broken").touch()
    with pytest.raises(Problem, match=r"after a change of .*/a: .*effect: disk full"):
        put(folder, file_row(folder / "a"))
    (entry,) = pending(folder)
    assert entry["id"] == f"file:{folder}/a" and entry["why"].endswith("effect has not followed")
    put(folder, file_row(folder.parent / "elsewhere"))  # another request does not forget it
    assert [row["id"] for row in pending(folder)] == [f"file:{folder}/a"] and calls(folder) == 0
    (folder.parent / "broken").unlink()
    assert put(folder, file_row(folder / "a")) == [f"run {folder.parent}/effect: {folder}/a changed"]
    assert pending(folder) == [] and calls(folder) == 1


def test_a_run_that_was_killed_between_file_and_effect_owes_it(folder: Path) -> None:
    row = file_row(folder / "a")
    record = Record(request_in(folder.parent)["record"], "chat")
    record.intend([row], {}, [])
    (folder / "a").write_bytes(b"hello\n")
    (folder / "a").chmod(0o640)
    assert put(folder, row) == [f"run {folder.parent}/effect: {folder}/a changed"]
    assert put(folder, row) == [] and calls(folder) == 1


def test_a_file_that_goes_asks_for_it_too(folder: Path) -> None:
    put(folder, file_row(folder / "a"))
    converge(request_in(folder.parent, delete=[f"file:{folder}/a"]), {}, False, [])
    assert calls(folder) == 2 and not (folder / "a").exists()
