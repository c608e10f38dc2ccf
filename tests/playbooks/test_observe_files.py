from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_observe_files
from ansible.module_utils.pdctl_observe import observe, observe_rows

from pdctl.state.digest import content_digest
from tests.playbooks.conftest import directory_row, file_row, request_in


def look(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    errors: list[str] = []
    found: list[dict[str, Any]] = observe_rows(list(rows), "chat", errors, set())
    assert not errors
    return found


def test_a_file_is_seen_with_owner_mode_and_digest(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"hello\n")
    path.chmod(0o640)
    row = file_row(path)
    assert look(row) == [{name: row[name] for name in look(row)[0]}]


def test_what_is_absent_is_left_out(tmp_path: Path) -> None:
    gone = [file_row(tmp_path / "x"), directory_row(tmp_path / "d"), file_row(tmp_path / "f" / "below")]
    (tmp_path / "f").write_text("a file where a folder was expected")
    assert look(*gone, {"kind": "user", "name": "nobody-has-this-name"}) == []


def test_a_link_in_a_files_place_equals_no_wanted_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"hello\n")
    (tmp_path / "x").symlink_to(tmp_path / "real")
    assert look(file_row(tmp_path / "x"))[0]["digest"] == "other:link"
    (tmp_path / "d").mkdir()
    assert look(file_row(tmp_path / "d"))[0]["digest"].startswith("other:")


def test_a_directory_may_be_a_link_to_a_larger_disk(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir(mode=0o750)
    (tmp_path / "opt").symlink_to(tmp_path / "disk")
    assert look(directory_row(tmp_path / "opt")) == [directory_row(tmp_path / "opt")]


def test_a_link_in_the_place_of_the_configuration_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdctl_observe_files, "CONFIG", f"{tmp_path}/pdctl/")
    (tmp_path / "pdctl/chat").mkdir(parents=True)
    (tmp_path / "pdctl/linked").symlink_to(tmp_path)
    errors: list[str] = []
    rows = [directory_row(tmp_path / "pdctl" / name) for name in ("chat", "linked")]
    assert len(observe_rows(rows, "chat", errors, set())) == 1
    (error,) = errors
    assert error.startswith(f"directory:{tmp_path}/pdctl/linked: it is a link to {tmp_path}, and none")


def test_an_owner_without_a_name_is_its_number(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 54321, 54321)
        assert look(directory_row(tmp_path))[0]["owner"] == "54321"


def test_only_small_changed_files_that_are_no_secrets_come_with_their_bytes(tmp_path: Path) -> None:
    for name in ("same", "changed", "large", "secret"):
        (tmp_path / name).write_bytes(b"now" * (1000 if name == "large" else 1))
    rows = [
        file_row(tmp_path / "same", b"now"),
        file_row(tmp_path / "changed", b"wanted"),
        file_row(tmp_path / "large", b"wanted"),
        file_row(tmp_path / "secret", b"wanted", secret=True),
    ]
    answer = observe(dict(request_in(tmp_path), resources=rows, content_limit=100))
    assert answer["contents"] == {str(tmp_path / "changed"): base64.b64encode(b"now").decode()}
    assert not answer["errors"]


def test_what_the_record_remembers_is_looked_at_too(tmp_path: Path) -> None:
    request = request_in(tmp_path)
    for name in ("recorded", "pending", "secret"):
        (tmp_path / name).write_bytes(b"x")
    record = Path(request["record"])
    record.parent.mkdir(parents=True)
    rows = [{"kind": "file", "path": str(tmp_path / "recorded"), "digest": "sha256:0", "created": True}]
    pending = [
        {"id": f"file:{tmp_path / 'pending'}", "created": True},
        {"id": f"file:{tmp_path / 'secret'}", "created": True, "secret": True},
    ]
    record.write_text(json.dumps({"version": 1, "resources": rows, "pending": pending}))
    answer = observe(dict(request, resources=[]))
    digests = {Path(row["path"]).name: row["digest"] for row in answer["resources"]}
    assert digests["recorded"] == digests["pending"] == content_digest(b"x")
    assert digests["secret"].startswith("scrypt:")
    assert answer["record"]["version"] == 1


def test_a_broken_record_is_told_and_hides_nothing_else(tmp_path: Path) -> None:
    request = request_in(tmp_path)
    Path(request["record"]).parent.mkdir(parents=True)
    Path(request["record"]).write_text("{")
    answer = observe(dict(request, resources=[directory_row(tmp_path)]))
    assert answer["record"] is None and len(answer["resources"]) == 1
    assert request["record"] in answer["errors"][0]


def test_the_bundle_is_listed_with_sizes(tmp_path: Path) -> None:
    (tmp_path / "bundle/wheels").mkdir(parents=True)
    (tmp_path / "bundle/wheels/x.whl").write_bytes(b"12345")
    assert observe(request_in(tmp_path))["bundle"] == {"wheels/x.whl": 5}


def test_facts_are_those_of_this_machine(tmp_path: Path) -> None:
    facts = observe(request_in(tmp_path))["facts"]
    assert facts["hostname"] == os.uname().nodename
    assert facts["memory_bytes"] > 2**20 and facts["cpus"] >= 1
    assert facts["disk_free"].keys() == {"/opt", "/opt/pdctl", "/etc", "/var"}
    assert all(facts["disk_free"].values())
