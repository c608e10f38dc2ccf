"""Weights on a host: what their own files tell, what was read of them, what a secret file holds."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_weights
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_fetch_weights import ASIDE, BESIDE, chosen, clear_pieces
from ansible.module_utils.pdctl_files import render_environment
from ansible.module_utils.pdctl_observe_weights import observe_weights, structure
from ansible.module_utils.pdctl_request import chosen as chosen_rows
from ansible.module_utils.pdctl_weights import put_weights, read_secrets, remove_weights

from pdctl.knowledge.hub import NOT_LOADED, NOT_LOADED_BESIDE_SAFETENSORS
from tests.hosts.hub import tensors


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two shards and their index."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    for number in (1, 2):
        (folder / f"model-0000{number}-of-00002.safetensors").write_bytes(tensors(1000))
    names = {f"w{number}": f"model-0000{number}-of-00002.safetensors" for number in (1, 2)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    return folder


def given(model: Path, **more: Any) -> dict[str, Any]:
    row = {"kind": "weights", "path": str(model), "revision": "main", "damage": [], "repo": "acme/m"}
    return {**row, "given": True, "checked": str(model.parent / "checked"), **more}


def test_a_whole_folder_is_whole(model: Path) -> None:
    assert structure(str(model)) == []


@pytest.mark.parametrize("missing", [1, 999, 1050])
def test_a_shard_that_is_cut_short_is_named(model: Path, missing: int) -> None:
    (model / "model-00002-of-00002.safetensors").write_bytes(tensors(1000, missing))
    assert [text.split()[0] for text in structure(str(model))] == ["model-00002-of-00002.safetensors"]


def test_a_shard_of_the_index_that_is_missing_is_named(model: Path) -> None:
    (model / "model-00001-of-00002.safetensors").unlink()
    assert structure(str(model)) == ["model-00001-of-00002.safetensors is missing"]


def test_an_index_that_cannot_be_read_and_a_folder_without_weights_are_told(model: Path) -> None:
    (model / "model.safetensors.index.json").write_text("{")
    assert structure(str(model)) == ["model.safetensors.index.json cannot be read"]
    for path in model.iterdir():
        path.unlink()
    assert structure(str(model)) == ["config.json is missing", "it holds no weights"]


def test_a_folder_of_the_users_is_read_once_and_then_only_looked_at(model: Path) -> None:
    row = given(model)
    seen = observe_weights(row)
    assert seen is not None and seen["damage"] == ["not checked yet"]
    put_weights(row)
    seen = observe_weights(row)
    assert seen is not None and seen["damage"] == [] and seen["given"] is True
    os.utime(model / "model-00001-of-00002.safetensors", (1, 1))
    (model / "model-00002-of-00002.safetensors").unlink()
    seen = observe_weights(row)
    assert seen is not None and seen["damage"] == [
        "model-00001-of-00002.safetensors was changed",
        "model-00002-of-00002.safetensors is gone",
    ]


def test_a_folder_that_is_missing_or_damaged_starts_no_engine(model: Path) -> None:
    with pytest.raises(Problem, match="no such folder on this host: copy or mount the weights there"):
        put_weights(given(model / "nowhere"))
    (model / "model-00002-of-00002.safetensors").write_bytes(tensors(1000, 10))
    with pytest.raises(Problem, match=r"model-00002.* has .* bytes, its header says .*no engine was started"):
        put_weights(given(model))
    assert observe_weights(given(model / "nowhere")) is None


def test_with_a_manifest_every_file_is_held_against_it(model: Path) -> None:
    files = {}
    for path in model.iterdir():
        data = path.read_bytes()
        files[path.name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    row = given(model, manifest=json.dumps({"commit": "c", "files": files}))
    put_weights(row)
    shard = model / "model-00001-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    with pytest.raises(Problem, match=r"model-00001.*has another checksum"):
        put_weights(row)


def test_what_somebody_else_filled_stays_when_it_leaves_the_spec(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdctl_weights, "CHECKED", str(model.parent / "checked"))
    put_weights(given(model))
    remove_weights(str(model))
    assert (model / "config.json").exists() and not (model.parent / "checked").exists()


def test_what_was_fetched_goes_and_with_the_last_model_all_that_lies_beside(model: Path) -> None:
    hub = model.parent / "hf/hub"
    hub.mkdir(parents=True)
    first, second = (hub / f"models--acme--{name}" for name in "ab")
    model.rename(first)
    second.mkdir()
    (hub / ".locks").mkdir()
    (hub / "CACHEDIR.TAG").touch()
    (hub.parent / "xet").mkdir()
    remove_weights(str(first))
    assert not first.exists() and (hub / ".locks").exists()
    remove_weights(str(second))
    assert [each.name for each in hub.parent.rglob("*")] == ["hub"]


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (
            ["config.json", "a.safetensors", "a.bin", "original/x.safetensors"],
            ["a.safetensors", "config.json"],
        ),
        (["config.json", "a.bin"], ["a.bin", "config.json"]),
        (["metal/model.bin", "model.safetensors", "tokenizer.json"], ["model.safetensors", "tokenizer.json"]),
    ],
)
def test_only_what_engines_load_is_fetched(names: list[str], kept: list[str]) -> None:
    assert chosen(names) == kept


def test_a_secret_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    values = {"HF_TOKEN": 'a"b\\c$d`e', "OTHER": "two\nlines"}
    (tmp_path / "s").write_bytes(render_environment(values))
    assert read_secrets(str(tmp_path / "s")) == values
    assert read_secrets(str(tmp_path / "nowhere")) == {}


def test_weights_are_put_after_all_else_and_apart_from_it() -> None:
    request = {"put": [{"kind": "file"}, {"kind": "weights"}], "cluster": "c"}
    assert chosen_rows(request, False)["put"] == [{"kind": "file"}]
    assert chosen_rows(request, True) == {"put": [{"kind": "weights"}], "cluster": "c"}
    assert chosen_rows({"units": []}, False) == {"units": []}


def test_hosts_and_bundle_leave_out_the_same_files() -> None:
    assert (ASIDE, BESIDE) == (NOT_LOADED, NOT_LOADED_BESIDE_SAFETENSORS)


def test_until_another_revision_is_checked_the_last_one_is_seen(model: Path) -> None:
    put_weights(given(model))
    seen = observe_weights(given(model, revision="v2"))
    assert seen is not None and (seen["revision"], seen["damage"]) == ("main", [])
    put_weights(given(model, revision="v2"))
    for revision in ("main", "v2"):
        seen = observe_weights(given(model, revision=revision))
        assert seen is not None and seen["revision"] == revision


def test_one_file_is_a_model_too(tmp_path: Path) -> None:
    model = tmp_path / "gpt.gguf"
    model.write_bytes(b"GGUF")
    put_weights(given(model))
    seen = observe_weights(given(model))
    assert seen is not None and seen["damage"] == []
    model.write_bytes(b"GGU")
    seen = observe_weights(given(model))
    assert seen is not None and seen["damage"] == ["gpt.gguf was changed"]


def test_pieces_that_nothing_goes_on_with_are_cleared_before_a_download(tmp_path: Path) -> None:
    blobs = tmp_path / "models--acme--m/blobs"
    blobs.mkdir(parents=True)
    for name in ("abc1.0123abcd.incomplete", "abc1.incomplete", "abc1"):
        (blobs / name).touch()
    clear_pieces({"cache": str(tmp_path), "repo": "acme/m"})
    assert sorted(each.name for each in blobs.iterdir()) == ["abc1", "abc1.incomplete"]
