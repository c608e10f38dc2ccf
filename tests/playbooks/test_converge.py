"""Requests carried out in this process, on real files below a folder of the test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_apply, pdctl_host_lock, pdctl_receive
from ansible.module_utils.pdctl_difference import Problem, told
from ansible.module_utils.pdctl_receive import receive
from ansible.module_utils.pdctl_units import drop_in_lines, dropped_in

from tests.playbooks.conftest import directory_row, file_row, needs_root, request_in

pytestmark = needs_root  # the record belongs to root


@pytest.fixture(autouse=True)
def lock_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "var/lib").mkdir(parents=True)
    monkeypatch.setattr(pdctl_host_lock, "LOCKED", str(tmp_path / "var/lib"))


def converge(request: dict[str, Any], secrets: dict[str, dict[str, str]] | None = None) -> list[str]:
    did: list[str] = []
    pdctl_apply.converge(request, secrets or {}, False, did)
    return did


def record_of(request: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(request["record"]).read_text())
    return found


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def rows_in(root: Path) -> list[dict[str, Any]]:
    return [
        directory_row(root / "etc/pdctl/chat"),
        file_row(root / "etc/pdctl/chat/a.yaml", b"a"),
        file_row(root / "etc/pdctl/chat/b.yaml", b"b"),
        file_row(root / "deep/er/c", b"c"),
    ]


def test_the_second_time_nothing_is_done_and_nothing_is_written(tmp_path: Path) -> None:
    request = request_in(tmp_path, put=rows_in(tmp_path))
    assert len(converge(request)) == 4
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert converge(request) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_only_what_differs_is_done_and_told(tmp_path: Path) -> None:
    request = request_in(tmp_path, put=rows_in(tmp_path))
    converge(request)
    (tmp_path / "etc/pdctl/chat/a.yaml").write_text("edited")
    (tmp_path / "etc/pdctl/chat/b.yaml").chmod(0o644)
    assert converge(request) == [
        f"update file {tmp_path}/etc/pdctl/chat/a.yaml: content",
        f"update file {tmp_path}/etc/pdctl/chat/b.yaml: mode 0644 -> 0640",
    ]


def test_the_record_holds_what_is_there_and_who_made_it(tmp_path: Path) -> None:
    (tmp_path / "etc/pdctl/chat").mkdir(parents=True)
    (tmp_path / "etc/pdctl/chat/a.yaml").write_text("an administrator's")
    request = request_in(tmp_path, put=rows_in(tmp_path))
    converge(request)
    record = record_of(request)
    made = {Path(row["path"]).name: row["created"] for row in record["resources"]}
    assert made == {"chat": False, "a.yaml": False, "b.yaml": True, "c": True}
    assert record["pending"] == [] and record["extras"] == [f"{tmp_path}/deep", f"{tmp_path}/deep/er"]
    assert record["by"] == "ann@desk" and "content" not in record["resources"][1]
    assert Path(request["record"]).stat().st_mode & 0o777 == 0o600
    assert Path(request["record"]).parent.stat().st_mode & 0o777 == 0o700


def test_check_mode_tells_and_touches_nothing(tmp_path: Path) -> None:
    request = request_in(tmp_path, put=rows_in(tmp_path))
    did: list[str] = []
    pdctl_apply.converge(request, {}, True, did)
    assert len(did) == 4 and tree(tmp_path) == ["var", "var/lib"]


def test_everything_goes_and_nothing_remains(tmp_path: Path) -> None:
    request = request_in(tmp_path, put=rows_in(tmp_path))
    converge(request)
    done = converge(request_in(tmp_path, everything=True))
    assert tree(tmp_path) == ["var", "var/lib"]
    assert done[-1] == "delete record" and f"delete file {tmp_path}/deep/er/c" in done
    assert converge(request_in(tmp_path, everything=True)) == []


def test_what_was_there_before_is_left_and_said(tmp_path: Path) -> None:
    (tmp_path / "etc/pdctl/chat").mkdir(parents=True)
    (tmp_path / "etc/pdctl/chat/a.yaml").write_text("x")
    converge(request_in(tmp_path, put=rows_in(tmp_path)))
    done = converge(request_in(tmp_path, everything=True))
    assert f"leave file {tmp_path}/etc/pdctl/chat/a.yaml: it was there before pdctl" in done
    assert "etc/pdctl/chat/a.yaml" in tree(tmp_path) and "etc/pdctl/chat/b.yaml" not in tree(tmp_path)


def test_a_folder_with_something_of_others_in_it_is_left(tmp_path: Path) -> None:
    converge(request_in(tmp_path, put=rows_in(tmp_path)))
    (tmp_path / "etc/pdctl/chat/notes.txt").write_text("mine")
    done = converge(request_in(tmp_path, everything=True))
    assert f"leave directory {tmp_path}/etc/pdctl/chat: it is not empty" in done
    assert "etc/pdctl/chat/notes.txt" in tree(tmp_path) and not Path(request_in(tmp_path)["record"]).exists()


def test_deleting_one_thing_keeps_the_rest_recorded(tmp_path: Path) -> None:
    request = request_in(tmp_path, put=rows_in(tmp_path))
    converge(request)
    assert converge(request_in(tmp_path, delete=[f"file:{tmp_path}/deep/er/c"])) == [
        f"delete file {tmp_path}/deep/er/c"
    ]
    names = [Path(row["path"]).name for row in record_of(request)["resources"]]
    assert names == ["chat", "a.yaml", "b.yaml"]


def test_two_clusters_share_a_file_and_the_last_one_removes_it(tmp_path: Path) -> None:
    shared = [file_row(tmp_path / "opt/venvs/marker", b"v")]
    one, two = (request_in(tmp_path, name, put=shared) for name in ("one", "two"))
    converge(one)
    assert converge(two) == []
    done = converge(request_in(tmp_path, "one", everything=True))
    assert f"leave file {tmp_path}/opt/venvs/marker: another cluster uses it" in done
    assert (tmp_path / "opt/venvs/marker").exists()
    assert record_of(two)["resources"][0]["created"] is True
    converge(request_in(tmp_path, "two", everything=True))
    assert tree(tmp_path) == ["var", "var/lib"]


def test_a_failure_midway_is_recorded_and_the_next_run_goes_on(tmp_path: Path) -> None:
    rows = rows_in(tmp_path)
    bad = dict(rows[2], owner="nobody-has-this-name")
    request = request_in(tmp_path, put=[rows[0], rows[1], bad, rows[3]])
    did: list[str] = []
    with pytest.raises(Problem, match="nobody-has-this-name"):
        pdctl_apply.converge(request, {}, False, did)
    assert [line.split("/")[-1] for line in did] == ["chat", "a.yaml"]
    assert [Path(row["path"]).name for row in record_of(request)["resources"]] == ["chat", "a.yaml"]
    assert record_of(request)["pending"] == []
    assert len(converge(request_in(tmp_path, put=rows))) == 2


def test_what_was_only_hidden_while_a_run_failed_is_still_pdctls_own(tmp_path: Path) -> None:
    """A disk that was not mounted: its content shows again, and destroy must still know it."""
    rows = rows_in(tmp_path)
    request = request_in(tmp_path, put=rows)
    converge(request)
    (tmp_path / "deep").rename(tmp_path / "hidden")
    bad = dict(rows[1], owner="nobody-has-this-name")
    with pytest.raises(Problem, match="nobody-has-this-name"):
        pdctl_apply.converge(request_in(tmp_path, put=[rows[0], bad, rows[2], rows[3]]), {}, False, [])
    (tmp_path / "hidden").rename(tmp_path / "deep")

    assert converge(request) == []
    assert len(record_of(request)["resources"]) == len(rows) and record_of(request)["pending"] == []
    converge(request_in(tmp_path, everything=True))
    assert tree(tmp_path) == ["var", "var/lib"]


def test_what_a_killed_run_left_is_pdctls_own_and_can_be_removed(tmp_path: Path) -> None:
    """The record as it is on disk at the moment of the kill, with a file of that run written."""
    rows = rows_in(tmp_path)
    request = request_in(tmp_path, put=rows)
    converge(request)
    record = record_of(request)
    record["pending"] = [{"id": row_id(row), "created": True, "secret": False} for row in rows]
    record["resources"] = []
    Path(request["record"]).write_text(json.dumps(record))
    (tmp_path / "etc/pdctl/chat/b.yaml").rename(tmp_path / "etc/pdctl/chat/b.yaml.pdctl-new")

    (tmp_path / ".pdctl-build").mkdir()
    (tmp_path / "venv.new/lib").mkdir(parents=True)
    record["pending"].append({"id": f"venv:{tmp_path}/venv", "created": True})
    Path(request["record"]).write_text(json.dumps(record))

    assert converge(request_in(tmp_path, put=rows[:2])) == []
    assert not [path for path in tree(tmp_path) if path.endswith((".new", "-new", "-build"))]
    after = record_of(request)
    assert after["pending"] == [] and all(row["created"] for row in after["resources"])
    assert len(after["resources"]) == 3

    Path(request["record"]).write_text(json.dumps(record))
    converge(request_in(tmp_path, everything=True))
    assert tree(tmp_path) == ["var", "var/lib"]


def test_a_secret_file_comes_from_its_values_and_shows_in_no_other_place(tmp_path: Path) -> None:
    row = file_row(tmp_path / "etc/secrets.env", b"", secret=True, content=None, digest="", mode="0600")
    request = request_in(tmp_path, put=[row, file_row(tmp_path / "etc/plain", b"p")])
    secrets = {row["path"]: {"HF_TOKEN": 'hf_TEST"$x'}}
    assert converge(request) == [f"create file {tmp_path}/etc/plain"]
    assert converge(request, secrets) == [f"create file {tmp_path}/etc/secrets.env"]
    assert Path(row["path"]).read_text() == 'HF_TOKEN="hf_TEST\\"\\$x"\n'
    assert converge(request, secrets) == []
    assert converge(request, {row["path"]: {"HF_TOKEN": "new"}}) == [f"update file {row['path']}: content"]
    record = Path(request["record"]).read_text()
    assert "scrypt:" in record and "hf_TEST" not in record


def test_a_broken_record_stops_before_anything_is_touched(tmp_path: Path) -> None:
    request = request_in(tmp_path, put=rows_in(tmp_path))
    Path(request["record"]).parent.mkdir(parents=True)
    Path(request["record"]).write_text("{")
    with pytest.raises(Problem, match=r"the record cannot be used: .*record.json"):
        converge(request)
    assert not (tmp_path / "etc").exists()


def test_a_later_problem_does_not_hide_the_first() -> None:
    try:
        try:
            raise Problem("no space for x")
        finally:
            raise Problem("no space for the record")
    except Problem as error:
        assert told(error) == "no space for the record; before that: no space for x"


def test_sent_files_reach_the_bundle_and_leave_with_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a transfer that was cut off has left goes with the next."""
    sent = tmp_path / "sent"
    (sent / "wheels").mkdir(parents=True)
    (sent / "wheels/x.whl").write_bytes(b"12345")
    request = request_in(tmp_path)
    did: list[str] = []
    monkeypatch.setattr(pdctl_receive, "SENT", f"{tmp_path}/pdctl-{{}}.*")
    for name in ("pdctl-chat.cut", "pdctl-chat-two.cut"):
        (tmp_path / name).mkdir()
    receive(request, str(sent), {"wheels/x.whl": 5}, did)
    assert did == [f"copy {tmp_path}/bundle/wheels/x.whl"]
    assert (tmp_path / "bundle/wheels/x.whl").read_bytes() == b"12345"
    converge(request_in(tmp_path, everything=True))
    assert tree(tmp_path) == ["pdctl-chat-two.cut", "sent", "sent/wheels", "var", "var/lib"]


def test_a_file_that_arrived_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"123")
    with pytest.raises(Problem, match="3 of 5 bytes arrived"):
        receive(request_in(tmp_path), str(tmp_path), {"x.whl": 5}, [])
    assert not (tmp_path / "bundle/x.whl").exists()


def row_id(row: dict[str, Any]) -> str:
    return f"{row['kind']}:{row['path']}"


def test_check_mode_and_removal_name_the_drop_ins_that_go() -> None:
    path = "/etc/systemd/system/web.service.d/by-hand.conf"
    have = {"deviations": ["environment: DEBUG added", f"drop-in {path}"]}
    assert drop_in_lines(dropped_in(have)) == [f"remove drop-in {path}"] and dropped_in(None) == []
