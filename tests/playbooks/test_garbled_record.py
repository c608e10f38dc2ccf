"""Whatever lies in record.json: it is used as it was written, or its file and what is wrong are named."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_observe import ONE_BY_ONE, observe_rows
from ansible.module_utils.pdctl_observe_units import environment_deviations
from ansible.module_utils.pdctl_record import Record, other_records
from ansible.module_utils.pdctl_recorded import KINDS as FIELDS
from ansible.module_utils.pdctl_recorded import read_record, remembered

from pdctl.errors import HostError
from pdctl.hosts.answer import Record as ControllersRecord
from pdctl.hosts.probe import ask
from pdctl.hosts.reach import Reach
from pdctl.hosts.sessions import Sessions
from pdctl.state.model import KINDS
from tests.playbooks.conftest import request_in

UNIT = "unit:pdctl-chat-proxy.service"
WHOLE: dict[str, Any] = {
    "version": 1,
    "cluster": "chat",
    "applied_at": "2030-01-01T00:00:00Z",
    "by": "ann@desk",
    "pdctl": "0.1.0",
    "spec_digest": "d1",
    "resources": [
        {"kind": "directory", "path": "/none/d", "owner": "root", "group": "root", "mode": "0755"},
        {"kind": "file", "path": "/none/f", "digest": "sha256:1", "secret": False, "created": False},
        {"kind": "package", "name": "none", "version": "1", "hold": True, "created": True},
        {
            "kind": "unit",
            "name": UNIT[5:],
            "enabled": True,
            "active": "active",
            "deviations": ["needs daemon-reload"],
            "drained": ["server-0"],
            "control": "",
            "ports": [9100],
            "crashes": 2,
            "argv": ["/bin/x"],
            "environment": [["A", "b"]],
            "secret_names": ["HF_TOKEN"],
        },
        {"kind": "user", "name": "nobody-of-ours", "home": "/x", "shell": "/bin/false", "created": True},
        {"kind": "venv", "path": "/none/v", "digest": "sha256:2", "python": "3.11", "damage": ["a"]},
    ],
    "pending": [{"id": "file:/none/g", "created": True, "secret": True}, {"id": UNIT, "why": "it ended"}],
    "extras": ["/none", "package:python3.11"],
    "owed": {UNIT: {"invocation": "i1", "causes": ["a"], "peers": ["decoder-0"]}},
    "timings": {UNIT[5:]: 12.5},
}
GARBAGE: list[Any] = [None, 5, -1, 1.5, True, "", "x", "\0", "\ud800", [], [None], [[]], {}, {"x": 1}]
GARBAGE += [{"\ud800": 1.5}, float("nan"), float("inf"), 10**400]
DEEP = "[" * 100_000
TEXTS = [
    "",
    "{",
    "[]",
    "null",
    "7",
    '"x"',
    "{}",
    DEEP,
    '{"version": 1, "resources": [{}]}',
    '{"version": NaN}',
]


def spots(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in it, itself left out."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*at, key)
        yield from spots(value[key], (*at, key))


def garbled() -> Iterator[tuple[str, str]]:
    """What was done, and the text: in place of each value of a good record any garbage, or nothing."""
    for spot in spots(WHOLE):
        for garbage in [*GARBAGE, ...]:
            found = copy.deepcopy(WHOLE)
            parent = found
            for key in spot[:-1]:
                parent = parent[key]
            if garbage is ...:
                del parent[spot[-1]]
            else:
                parent[spot[-1]] = garbage
            yield f"{spot}: {str(garbage)[:20]!r}", json.dumps(found)


def use(path: Path) -> list[str]:
    """What is said of it when it is looked at; all that a host and a controller do with one that passes."""
    errors: list[str] = []
    said = read_record(str(path), errors)
    rows = remembered(said)
    if errors:
        assert said is None and rows == []
        return errors
    if said["version"] <= 1:
        ControllersRecord.model_validate(json.loads(json.dumps(said)))
    alone = [row for row in rows if row["kind"] in ONE_BY_ONE]
    observe_rows(alone, "chat", errors, set())
    for row in rows:
        if row["kind"] == "unit":
            environment_deviations(row, {"A": "b"}, {"A": "b"})
    return errors


def test_no_garbage_in_any_place_is_more_than_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "chat/record.json"
    path.parent.mkdir()
    for what, text in [*garbled(), *((text[:40], text) for text in TEXTS)]:
        path.write_text(text)
        errors = use(path)
        assert all(line.startswith(f"{path}: ") for line in errors), what
        try:
            record = Record(str(path), "chat")
        except Problem as problem:
            newer = "newer pdctl" in str(problem)
            assert f"record cannot be used: {path}: " in str(problem) and bool(errors) is not newer, what
            continue
        assert not errors, what
        assert record.as_json()["resources"] is not None and record.is_unchanged() in (True, False), what
        assert [record.made(key, True) for key in record.all()], what
        assert all(debt["causes"] + debt["peers"] is not None for debt in record.owed.values()), what


def test_a_good_record_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(WHOLE))
    assert use(path) == []
    record = Record(str(path), "chat")
    assert record.is_unchanged() and record.owed == WHOLE["owed"] and record.extras == WHOLE["extras"]
    assert record.made("directory:/none/d", True), "what does not say who made it was made by pdctl"
    assert not record.made("file:/none/f", True)


SAID = [
    ("[]", "it is no JSON object"),
    ({**WHOLE, "resources": [{}]}, "`resources[0]` lacks `kind`"),
    ({**WHOLE, "resources": [5]}, "`resources[0]` is no JSON object"),
    ({**WHOLE, "resources": [{"kind": "gpu"}]}, "`resources[0].kind` is no kind of resource"),
    ({**WHOLE, "resources": [{"kind": "directory", "path": "x"}]}, "`resources[0].path` is no absolute path"),
    ({**WHOLE, "pending": 5}, "`pending` is no list"),
    ({**WHOLE, "pending": [{"id": "x"}]}, "`pending[0].id` is no `kind:name`"),
    ({**WHOLE, "extras": {}}, "`extras` is no list of texts"),
    ({**WHOLE, "owed": 7}, "`owed` is no JSON object"),
    ({**WHOLE, "owed": {UNIT: 7}}, f'`owed["{UNIT}"]` is no JSON object'),
    ({**WHOLE, "timings": {"x": "1"}}, "`timings` is no JSON object of seconds"),
    ({"resources": []}, "it lacks `version`"),
    ({**WHOLE, "by": 5}, "`by` is no text"),
]


@pytest.mark.parametrize(("data", "words"), SAID, ids=[words for _, words in SAID])
def test_what_is_wrong_is_said_in_words(tmp_path: Path, data: Any, words: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    assert use(path) == [f"{path}: {words}"]


def test_its_host_is_left_out_with_what_to_do(tmp_path: Path) -> None:
    request = request_in(tmp_path, resources=[])
    path = Path(request["record"])
    path.parent.mkdir(parents=True)
    path.write_text('{"version": 1, "pending": 5}')
    here = Reach("h1", "h1", connection="local", become=False)
    with pytest.raises(HostError) as error:
        ask(Sessions({"h1": here}), "h1", request, 30)
    assert str(error.value) == f"h1: its record cannot be used: {path}: `pending` is no list"
    assert error.value.hint and error.value.hint.startswith("restore it from a backup")


def test_one_of_a_newer_pdctl_is_no_garbage_and_never_written_over(tmp_path: Path) -> None:
    request = request_in(tmp_path, resources=[])
    path = Path(request["record"])
    path.parent.mkdir(parents=True)
    path.write_text('{"version": 2, "resources": {"in": "another form"}}')
    here = Reach("h1", "h1", connection="local", become=False)
    with pytest.raises(HostError, match=r"written by a newer pdctl \(version 2\)") as error:
        ask(Sessions({"h1": here}), "h1", request, 30)
    assert error.value.hint == "upgrade pdctl here"
    with pytest.raises(Problem, match=f"record cannot be used: {path}: a newer pdctl wrote it"):
        Record(str(path), "chat")


def test_that_of_another_cluster_is_named_too(tmp_path: Path) -> None:
    for cluster in ("chat", "other"):
        (tmp_path / cluster).mkdir()
        (tmp_path / cluster / "record.json").write_text(json.dumps(WHOLE))
    mine = Record(str(tmp_path / "chat/record.json"), "chat")
    (tmp_path / "other/record.json").write_text("[]")
    with pytest.raises(Problem, match=f"{tmp_path}/other/record.json: it is no JSON object"):
        other_records(mine)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_kind_is_checked_and_what_must_be_there_is_what_has_no_default(kind: str) -> None:
    must, may = FIELDS[kind]
    fields = dataclasses.fields(KINDS[kind])
    assert FIELDS.keys() == KINDS.keys()
    assert must.keys() | may.keys() == {field.name for field in fields}
    bare = [
        f for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    assert must.keys() == {field.name for field in bare}
