"""A controller's turn: the lock is compared and set, the generation begun with it, nothing is half there."""

from __future__ import annotations

import base64
import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_generations, pdctl_kept, pdctl_observe_generations
from ansible.module_utils.pdctl_journal import append
from ansible.module_utils.pdctl_lock import take as take_lock
from ansible.module_utils.pdctl_observe_generations import kept_state
from ansible.module_utils.pdctl_turn import answer

from tests.playbooks.conftest import file_row

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855:0"  # no record, no generation


def folder(root: Path) -> Path:
    return root / "pdctl" / "chat"


def ask(root: Path, do: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = answer({"do": do, "record": str(folder(root) / "record.json"), **more})
    return found


def owner(name: str = "ann") -> dict[str, Any]:
    return {"by": f"{name}@desk", "command": "pdctl apply", "token": name, "pid": 7}


def generation(number: int, *rows: dict[str, Any], spec: str = "cluster: chat\n") -> dict[str, Any]:
    header = {"number": number, "at": "2030", "by": "ann@desk", "pdctl": "1", "what": "create 1"}
    return {"header": {**header, "digest": f"d{number}"}, "rows": list(rows), "spec": spec}


def take(root: Path, name: str = "ann", **more: Any) -> dict[str, Any]:
    return ask(root, "take", owner=owner(name), **{"mark": kept(root)["mark"], **more})


def end(root: Path, name: str = "ann", **more: Any) -> dict[str, Any]:
    return ask(root, "end", token=name, **more)


def kept(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = kept_state(str(folder(root) / "record.json"))
    return found


def applied(root: Path, number: int, *rows: dict[str, Any], state: str = "complete", **more: Any) -> None:
    assert take(root, generation=generation(number, *rows)) == {}
    assert end(root, number=number, state=state, **more) == {}


def test_a_lock_is_taken_told_of_and_given_back_and_nothing_is_left(tmp_path: Path) -> None:
    assert kept(tmp_path)["mark"] == EMPTY
    assert take(tmp_path) == {}
    found = kept(tmp_path)["lock"]
    assert (found["by"], found["command"], found["token"]) == ("ann@desk", "pdctl apply", "ann")
    assert 0 <= found["age_s"] < 60
    assert end(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_second_one_is_told_who_has_it_and_changes_nothing(tmp_path: Path) -> None:
    take(tmp_path)
    assert take(tmp_path, "bob")["held"]["by"] == "ann@desk"
    assert end(tmp_path, "bob")["lost"]["by"] == "ann@desk"
    assert kept(tmp_path)["lock"]["token"] == "ann"


def test_one_that_asks_again_after_a_lost_answer_has_it(tmp_path: Path) -> None:
    mark = kept(tmp_path)["mark"]
    for _ in range(2):
        assert take(tmp_path, mark=mark, generation=generation(1)) == {}
    assert [row["number"] for row in kept(tmp_path)["generations"]] == [1]


def test_a_lock_known_to_be_stale_is_taken_over_but_only_that_one(tmp_path: Path) -> None:
    take(tmp_path)
    assert take(tmp_path, "bob", replaces="eve")["held"]["token"] == "ann"
    assert take(tmp_path, "bob", replaces="ann") == {}
    assert take(tmp_path, "eve", replaces="ann")["held"]["token"] == "bob"


def test_a_plan_made_from_another_state_gets_no_lock(tmp_path: Path) -> None:
    old = kept(tmp_path)["mark"]
    applied(tmp_path, 1)
    assert take(tmp_path, mark=old) == {"moved": True}
    before = kept(tmp_path)["mark"]
    (folder(tmp_path) / "record.json").write_text("{}")
    assert take(tmp_path, mark=before) == {"moved": True}
    assert kept(tmp_path)["lock"] is None


def test_of_many_at_once_one_gets_it(tmp_path: Path) -> None:
    """Also while others make and remove the folder that they all wait for."""
    got: list[str] = []
    together = threading.Barrier(8, timeout=10)

    def one(name: str) -> None:
        together.wait()
        for _ in range(20):
            if take(tmp_path, name, mark=EMPTY) == {}:
                assert kept(tmp_path)["lock"]["token"] == name
                got.append(name)
                assert end(tmp_path, name) == {}

    threads = [threading.Thread(target=one, args=(f"n{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert got and list(tmp_path.iterdir()) == []


def test_what_a_killed_program_left_half_made_holds_nobody_up(tmp_path: Path) -> None:
    (folder(tmp_path) / "lock").mkdir(parents=True)
    (folder(tmp_path) / "lock.dead").mkdir()
    assert kept(tmp_path)["lock"] is None
    assert take(tmp_path) == {} and end(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "[1]", "\x00"])
def test_a_strange_owner_file_is_a_lock_that_can_be_broken(tmp_path: Path, text: str) -> None:
    (folder(tmp_path) / "lock").mkdir(parents=True)
    (folder(tmp_path) / "lock/owner.json").write_text(text)
    assert kept(tmp_path)["lock"]["token"] == ""
    assert take(tmp_path)["held"]["by"] == "somebody"
    assert ask(tmp_path, "break", token="") == {}
    assert list(tmp_path.iterdir()) == []


def test_breaking_takes_the_lock_that_was_shown_and_no_later_one(tmp_path: Path) -> None:
    take(tmp_path)
    assert ask(tmp_path, "break", token="eve")["held"]["token"] == "ann"
    assert ask(tmp_path, "break", token="ann") == {}
    assert kept(tmp_path)["lock"] is None


def test_a_generation_keeps_rows_contents_and_spec(tmp_path: Path) -> None:
    rows = [file_row(tmp_path / "x", b"one\n"), {"kind": "venv", "path": "/v", "digest": "d"}]
    applied(tmp_path, 1, *rows)
    found = ask(tmp_path, "recall", number=1)
    assert found["spec"] == "cluster: chat\n" and found["manifest"]["rows"] == rows
    assert [(row["number"], row["state"]) for row in kept(tmp_path)["generations"]] == [(1, "complete")]
    assert kept(tmp_path)["spec_text"] == {"number": 1, "text": "cluster: chat\n", "lock": ""}


def test_no_value_of_a_secret_is_kept(tmp_path: Path) -> None:
    secret = file_row(tmp_path / "s", secret=True, content=None, digest="scrypt:1")
    applied(tmp_path, 1, secret)
    assert ask(tmp_path, "recall", number=1)["manifest"]["rows"] == [secret]
    assert len(list((folder(tmp_path) / "store").iterdir())) == 2  # the rows and the spec


def test_all_of_it_is_for_root_alone(tmp_path: Path) -> None:
    applied(tmp_path, 1, file_row(tmp_path / "x"))
    take(tmp_path)
    modes = {p.stat().st_mode & 0o777 for p in folder(tmp_path).rglob("*") if p.is_file()}
    folders = {
        p.stat().st_mode & 0o777 for p in (folder(tmp_path), *folder(tmp_path).rglob("*")) if p.is_dir()
    }
    assert (modes, folders) == ({0o600}, {0o700})


def test_a_host_without_part_in_a_generation_holds_what_it_held_before(tmp_path: Path) -> None:
    applied(tmp_path, 2, file_row(tmp_path / "x", b"two\n"))
    applied(tmp_path, 5, file_row(tmp_path / "x", b"five\n"))
    applied(tmp_path, 6, state="failed")
    numbers = [ask(tmp_path, "recall", number=n)["manifest"] for n in (1, 2, 4, 5, 9)]
    assert [found and found["number"] for found in numbers] == [None, 2, 2, 5, 5]
    assert ask(tmp_path, "recall", number=4)["spec"] is None


def test_what_no_rollback_needs_goes_with_the_contents_that_only_it_named(tmp_path: Path) -> None:
    for number in (1, 2, 3, 4):
        applied(tmp_path, number, file_row(tmp_path / "x", f"{number}\n".encode()), oldest=3)
    assert [row["number"] for row in kept(tmp_path)["generations"]] == [3, 4]
    texts = {p.read_bytes() for p in (folder(tmp_path) / "store").iterdir()}
    assert {b"3\n", b"4\n"} <= texts and not texts & {b"1\n", b"2\n"}
    applied(tmp_path, 8, oldest=6)
    assert [row["number"] for row in kept(tmp_path)["generations"]] == [4, 8]  # 4 is what was there at 6


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("after", range(6))
def test_a_full_disk_leaves_neither_lock_nor_half_a_generation(
    tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [after]

    def fsync(handle: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            full()

    applied(tmp_path, 1, file_row(tmp_path / "x"))
    monkeypatch.setattr(pdctl_kept.os, "fsync", fsync)
    said = take(tmp_path, generation=generation(2, file_row(tmp_path / "y", b"new\n")))
    monkeypatch.undo()
    assert "No space left on device" in said["error"]
    assert kept(tmp_path)["lock"] is None
    assert not [p for p in folder(tmp_path).rglob("*") if ".pdctl-new" in p.name or "lock" in p.name]
    numbers = [row["number"] for row in kept(tmp_path)["generations"]]
    assert numbers in ([1], [1, 2]) and all(json.loads(p.read_text()) for p in generations(tmp_path))


def generations(root: Path) -> list[Path]:
    return sorted((folder(root) / "generations").iterdir())


def test_a_manifest_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    applied(tmp_path, 1)
    applied(tmp_path, 2)
    (folder(tmp_path) / "generations/2.json").write_text('{"number": 2')
    found = kept(tmp_path)
    assert [row["state"] for row in found["generations"]] == ["complete", "broken"]
    assert "generations/2.json: it is not JSON" in found["broken"][0]


def test_after_destroy_nothing_is_left_even_of_applies_that_changed_nothing(tmp_path: Path) -> None:
    applied(tmp_path, 1, file_row(tmp_path / "x"), state="failed")
    take(tmp_path)
    assert end(tmp_path, forget=True) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_generation_that_never_came_about_leaves_nothing(tmp_path: Path) -> None:
    """Another host refused: nothing was changed anywhere."""
    take(tmp_path, generation=generation(1, file_row(tmp_path / "x")))
    assert end(tmp_path, number=1, state="") == {}
    assert list(tmp_path.iterdir()) == []
    applied(tmp_path, 1, file_row(tmp_path / "x"))
    before = {p.name for p in folder(tmp_path).rglob("*")}
    take(tmp_path, generation=generation(2, file_row(tmp_path / "x", b"other\n"), spec="cluster: other\n"))
    assert end(tmp_path, number=2, state="") == {}
    assert {p.name for p in folder(tmp_path).rglob("*")} == before


def test_what_is_in_the_store_whole_is_not_written_again_and_what_is_torn_is(tmp_path: Path) -> None:
    name = pdctl_generations.keep(str(stored(tmp_path)), b"data")
    path = stored(tmp_path) / "store" / name
    before = path.stat().st_ino
    pdctl_generations.keep(str(stored(tmp_path)), b"data")
    assert path.stat().st_ino == before
    path.write_bytes(b"da")
    pdctl_generations.keep(str(stored(tmp_path)), b"data")
    assert path.read_bytes() == b"data"


def stored(root: Path) -> Path:
    (folder(root) / "store").mkdir(parents=True, exist_ok=True)
    return folder(root)


def test_contents_come_back_as_they_were(tmp_path: Path) -> None:
    data = bytes(range(256))
    applied(tmp_path, 1, file_row(tmp_path / "x", data), file_row(tmp_path / "empty", b""))
    rows = ask(tmp_path, "recall", number=1)["manifest"]["rows"]
    assert [base64.b64decode(row["content"]) for row in rows] == [data, b""]


def test_who_is_at_work_is_told_by_the_locks_and_the_own_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One host lock for all clusters: whose module has it, only what lies beside it tells."""
    monkeypatch.setattr(pdctl_observe_generations, "is_busy", lambda: True)
    assert (kept(tmp_path)["busy"], kept(tmp_path)["others"]) == (True, [])
    other = folder(tmp_path).parent / "other"
    other.mkdir(parents=True)
    take_lock(str(other), owner("bob"))
    assert not kept(tmp_path)["busy"]
    [row] = kept(tmp_path)["others"]
    assert (row["cluster"], row["by"], row["command"]) == ("other", "bob@desk", "pdctl apply")
    folder(tmp_path).mkdir(exist_ok=True)
    entry = {"generation": 1, "step": "put", "event": "begin", "by": "ann@desk"}
    append(str(folder(tmp_path)), entry)
    assert kept(tmp_path)["busy"]
    append(str(folder(tmp_path)), dict(entry, event="end"))
    assert not kept(tmp_path)["busy"]
    monkeypatch.setattr(pdctl_observe_generations, "is_busy", lambda: False)
    assert (kept(tmp_path)["busy"], kept(tmp_path)["others"]) == (False, [])
