"""Whatever lies where pdctl keeps lock, generations, journal and store is told by its path."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.pdctl_journal import append

from pdctl.hosts.observation import Kept
from pdctl.hosts.turn import _adapter
from tests.playbooks.conftest import file_row
from tests.playbooks.test_turn import applied, ask, end, folder, generation, kept, take

DEEP = b"[" * 50_000  # more than Python nests, less than what is read of a journal
SPOILT = [b"", b"\x00" * 9, b"{", b"[]", b"[[1, 2]]", b"null", b"7", b'"x"', b"\xff\xfe{}", b"{}", DEEP]
OWNERS = [
    b'{"by": 5}',
    b'{"by": "ann", "pid": -1}',
    b'{"by": "ann", "pid": 99999999999999999999}',
    b'{"by": "\\ud800"}',
    b'{"token": null}',
]


def seen(root: Path) -> Kept:
    """As the controller takes it: through JSON, and checked."""
    said = json.loads(json.dumps(ask(root, "show")))
    found = _adapter().validate_python(said)
    assert found.kept is not None and not found.error, found
    return found.kept


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.mark.parametrize("data", [*SPOILT, *OWNERS])
def test_a_broken_lock_is_told_by_its_path_and_can_be_broken(tmp_path: Path, data: bytes) -> None:
    path = folder(tmp_path) / "lock/owner.json"
    put(path, data)
    lock = seen(tmp_path).lock
    assert lock is not None and str(path) in lock.command and lock.by
    assert take(tmp_path)["held"]["token"] == lock.token
    assert ask(tmp_path, "break", token=lock.token) == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "full", "file", "link"])
def test_a_lock_of_another_kind_can_be_broken_too(tmp_path: Path, kind: str) -> None:
    lock = folder(tmp_path) / "lock"
    lock.parent.mkdir(parents=True)
    if kind == "folder":
        (lock / "owner.json").mkdir(parents=True)
    elif kind == "full":
        put(lock / "something", b"x")
    elif kind == "file":
        put(lock, b"x")
    else:
        lock.symlink_to("nowhere")
    found = seen(tmp_path).lock
    assert found is not None and str(lock) in found.command
    assert take(tmp_path)["held"]["by"] == "somebody"
    assert ask(tmp_path, "break", token="") == {}
    assert list(tmp_path.iterdir()) == []


def spoilt_manifests() -> list[bytes]:
    whole = {"number": 2, "begun": 1.0, "state": "complete", "spec": "s", "rows": "r"}
    changes: list[dict[str, Any]] = [
        {"venvs": 5},
        {"venvs": [1]},
        {"blobs": "x"},
        {"spec": 7},
        {"begun": float("nan")},
        {"begun": 10**400},
        {"number": 3},
        {"number": "2"},
        {"restores": "1"},
        {"by": "\ud800"},
        {"state": None},
    ]
    rows = [json.dumps({**whole, **change}).encode() for change in changes]
    return rows + [json.dumps({k: v for k, v in whole.items() if k != name}).encode() for name in whole]


@pytest.mark.parametrize("data", [*SPOILT, *spoilt_manifests()])
def test_a_broken_manifest_is_shown_as_broken_and_skipped(tmp_path: Path, data: bytes) -> None:
    rows = [file_row(tmp_path / "x", b"one\n")]
    applied(tmp_path, 1, *rows)
    applied(tmp_path, 2, file_row(tmp_path / "x", b"two\n"))
    path = folder(tmp_path) / "generations/2.json"
    put(path, data)
    found = seen(tmp_path)
    assert [(row.number, row.state) for row in found.generations] == [(1, "complete"), (2, "broken")]
    assert [line for line in found.broken if line.startswith(f"{path}: ")]
    assert found.spec_text is not None and found.spec_text.number == 1
    assert ask(tmp_path, "recall", number=1)["manifest"]["rows"] == rows
    assert str(path) in ask(tmp_path, "recall", number=2)["error"]
    applied(tmp_path, 3, *rows, oldest=3)
    assert [row.number for row in seen(tmp_path).generations] == [3]


def test_what_a_host_held_is_unknown_where_the_last_manifest_up_to_it_is_broken(tmp_path: Path) -> None:
    for number in (1, 2, 4):
        applied(tmp_path, number, file_row(tmp_path / "x", f"{number}\n".encode()))
    put(folder(tmp_path) / "generations/2.json", b"")
    assert "generations/2.json: " in ask(tmp_path, "recall", number=3)["error"]
    assert ask(tmp_path, "recall", number=4)["manifest"]["number"] == 4


def test_a_folder_in_the_place_of_a_manifest_is_told_and_goes_with_its_time(tmp_path: Path) -> None:
    applied(tmp_path, 1)
    (folder(tmp_path) / "generations/2.json").mkdir()
    assert [row.state for row in seen(tmp_path).generations] == ["complete", "broken"]
    applied(tmp_path, 3, oldest=3)
    assert [row.number for row in seen(tmp_path).generations] == [3]


@pytest.mark.parametrize(
    "line", [*SPOILT[1:], b'{"time": 1}', b'{"time": "x", "generation": 1, "step": "s", "event": "end"}']
)
def test_a_broken_journal_is_told_and_the_line_before_counts(tmp_path: Path, line: bytes) -> None:
    applied(tmp_path, 1)
    path = folder(tmp_path) / "journal.jsonl"
    append(str(folder(tmp_path)), {"generation": 1, "step": "Put", "event": "end"})
    path.write_bytes(path.read_bytes() + line + b"\n")
    found = seen(tmp_path)
    assert found.journal is not None and found.journal.step == "Put"
    assert [told for told in found.broken if told.startswith(f"{path}: ")]
    append(str(folder(tmp_path)), {"generation": 2, "step": "Next", "event": "begin"})
    assert seen(tmp_path).broken == ()


def test_a_line_that_a_power_cut_has_torn_is_no_news(tmp_path: Path) -> None:
    applied(tmp_path, 1)
    put(folder(tmp_path) / "journal.jsonl", b'{"generation": 1, "st')
    assert seen(tmp_path).broken == () and seen(tmp_path).journal is None


def test_a_folder_in_the_place_of_the_journal_is_told(tmp_path: Path) -> None:
    applied(tmp_path, 1)
    (folder(tmp_path) / "journal.jsonl").mkdir()
    assert "journal.jsonl: " in seen(tmp_path).broken[0]


def test_a_manifest_that_only_root_may_read_is_no_broken_one(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    applied(tmp_path, 1)
    (folder(tmp_path) / "generations/1.json").chmod(0)
    assert "Permission denied" in ask(tmp_path, "show")["error"]


def test_with_all_of_it_broken_an_apply_still_begins_and_ends(tmp_path: Path) -> None:
    applied(tmp_path, 1, file_row(tmp_path / "x"))
    for path in folder(tmp_path).rglob("*"):
        if path.is_file():
            put(path, b"\xff")
    assert take(tmp_path, generation=generation(2, file_row(tmp_path / "x"))) == {}
    assert end(tmp_path, number=2, state="complete") == {}
    assert kept(tmp_path)["generations"][-1]["state"] == "complete"


def test_a_manifest_that_is_put_back_from_a_backup_finds_all_that_it_names(tmp_path: Path) -> None:
    rows = [file_row(tmp_path / "x", b"one\n")]
    applied(tmp_path, 1, *rows)
    path = folder(tmp_path) / "generations/1.json"
    backup = path.read_bytes()
    put(path, b"")
    applied(tmp_path, 2, file_row(tmp_path / "x", b"two\n"))
    put(path, backup)
    assert ask(tmp_path, "recall", number=1)["manifest"]["rows"] == rows
