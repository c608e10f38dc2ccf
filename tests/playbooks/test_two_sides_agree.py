"""What the controller computes and what the hosts compute must never drift apart."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.pdctl_difference import COMPARED, difference
from ansible.module_utils.pdctl_files import render_environment
from ansible.module_utils.pdctl_observe import observe_rows
from ansible.module_utils.pdctl_observe_files import secret_digest
from ansible.module_utils.pdctl_rows import row_id, row_of
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.desired.render import env_file
from pdctl.state import Directory, File, Package, Resource, Unit, User, Venv, Weights
from pdctl.state import difference as controllers_difference
from pdctl.state.codec import resource_from_json, resource_to_json
from pdctl.state.digest import secret_digest as controllers_secret_digest
from pdctl.state.model import KINDS, compared

WORDS = st.sampled_from(["a", "b"])
FLAGS = st.booleans()
TUPLES = st.lists(WORDS, max_size=2).map(tuple)
RESOURCES: dict[str, st.SearchStrategy[Resource]] = {
    "user": st.builds(User, name=st.just("pdctl"), home=WORDS),
    "directory": st.builds(Directory, path=st.just("/d"), owner=WORDS, group=WORDS, mode=WORDS),
    "file": st.builds(File, path=st.just("/f"), digest=WORDS, owner=WORDS, mode=WORDS, secret=FLAGS),
    "package": st.builds(Package, name=st.just("p"), version=st.none() | WORDS, hold=FLAGS),
    "venv": st.builds(
        Venv, path=st.just("/v"), digest=WORDS, python=WORDS, damage=TUPLES, proof=WORDS | st.just("")
    ),
    "weights": st.builds(Weights, path=st.just("/w"), revision=WORDS, damage=TUPLES),
    "unit": st.builds(
        Unit,
        name=st.just("u"),
        enabled=FLAGS,
        active=WORDS,
        revision=WORDS | st.just(""),
        deviations=TUPLES,
        loaded=WORDS | st.just(""),
        drained=TUPLES,
        sides=TUPLES,
    ),
}


def test_every_kind_is_compared_by_the_same_fields() -> None:
    examples = {kind: dataclasses.fields(cls) for kind, cls in KINDS.items()}
    assert {kind: tuple(f.name for f in fields if f.compare) for kind, fields in examples.items()} == COMPARED


@pytest.mark.parametrize("kind", sorted(RESOURCES))
@settings(max_examples=30)
@given(data=st.data())
def test_both_sides_say_the_same_words_about_a_difference(kind: str, data: st.DataObject) -> None:
    want, have = data.draw(RESOURCES[kind]), data.draw(RESOURCES[kind])
    assert compared(want) == COMPARED[kind]
    words = difference(resource_to_json(want, full=True), resource_to_json(have))
    assert tuple(words) == controllers_difference(want, have)


@pytest.mark.parametrize("kind", sorted(RESOURCES))
@settings(max_examples=30)
@given(data=st.data())
def test_both_sides_name_a_resource_alike(kind: str, data: st.DataObject) -> None:
    resource = data.draw(RESOURCES[kind])
    assert row_id(resource_to_json(resource)) == resource.id
    assert row_id(row_of(resource.id)) == resource.id


def test_a_secret_has_the_same_digest_on_both_sides() -> None:
    assert secret_digest(b"hf_x\n", "chat") == controllers_secret_digest(b"hf_x\n", "chat")
    assert secret_digest(b"hf_x\n", "chat") != secret_digest(b"hf_x\n", "other")


@settings(max_examples=50)
@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), st.text(max_size=20)))
def test_a_secret_file_has_the_same_bytes_on_both_sides(values: dict[str, str]) -> None:
    clean = {name: value.replace("\0", "") for name, value in values.items()}
    assert render_environment(clean) == env_file(clean).encode("utf-8", "surrogatepass")


def test_what_a_host_answers_is_a_resource_and_comes_back_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    (tmp_path / "v").mkdir()
    asked: list[dict[str, Any]] = [
        {"kind": "user", "name": "root"},
        {"kind": "directory", "path": str(tmp_path)},
        {"kind": "file", "path": str(tmp_path / "f")},
        {"kind": "file", "path": str(tmp_path / "f"), "secret": True},
        {"kind": "venv", "path": str(tmp_path / "v")},
        {"kind": "package", "name": "dpkg"},
    ]
    for row in asked:
        for answer in observe_rows([row], "chat", [], set()):
            assert resource_to_json(resource_from_json(answer)) == answer
