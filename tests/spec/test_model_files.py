"""What this machine has of a model: a folder, the Hugging Face cache, or something hostile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pdctl.spec.load import inspect
from pdctl.spec.model import Model
from pdctl.spec.model_files import model_files
from pdctl.topology.judge import Judgement, judge
from tests.spec.test_config_json import LLAMA, QWEN
from tests.spec.test_config_weights import LLAMA_405B

SHAPELESS = QWEN | {"vocab_size": None}  # so that nothing but files tells the size of weights
COMMIT, OTHER = "a" * 40, "b" * 40


def put(folder: Path, config: object = QWEN, **files: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    for name, data in files.items():
        (folder / f"{name}.safetensors").write_bytes(data)
    return folder


def cached(home: Path, commit: str = COMMIT, branch: str = "main", config: object = QWEN) -> Path:
    repository = home / "hub" / "models--acme--x"
    (repository / "refs" / branch).parent.mkdir(parents=True, exist_ok=True)
    (repository / "refs" / branch).write_text(commit)
    return put(repository / "snapshots" / commit, config)


def test_the_folder_of_the_spec_comes_first(tmp_path: Path) -> None:
    put(tmp_path / "x", LLAMA)
    cached(tmp_path)
    environ = {"HF_HOME": str(tmp_path)}
    found = model_files(Model(id="acme/x", path=str(tmp_path / "x")), environ)
    assert found and found.facts and found.facts.layers == 80 and found.config == f"{tmp_path}/x/config.json"
    found = model_files(Model(id="acme/x", path=str(tmp_path / "nowhere")), environ)
    assert found and found.facts and found.facts.layers == 36


@pytest.mark.parametrize("name", ["HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "HOME"])
def test_the_cache_is_where_hugging_face_has_it(tmp_path: Path, name: str) -> None:
    below = {"XDG_CACHE_HOME": "huggingface", "HOME": ".cache/huggingface"}.get(name, ".")
    cached(tmp_path / below)
    value = tmp_path / "hub" if name == "HF_HUB_CACHE" else tmp_path
    found = model_files(Model(id="acme/x"), {name: str(value)})
    assert found is not None and found.facts is not None


def test_the_pinned_revision_is_read_and_no_other(tmp_path: Path) -> None:
    cached(tmp_path)
    cached(tmp_path, OTHER, "v2/b", LLAMA)
    environ = {"HF_HOME": str(tmp_path)}
    for revision, layers in ((None, 36), ("main", 36), (OTHER, 80), ("v2/b", 80)):
        found = model_files(Model(id="acme/x", revision=revision), environ)
        assert found and found.facts and found.facts.layers == layers
    for revision in ("v3", "c" * 40, "../refs/main", "v2"):
        assert model_files(Model(id="acme/x", revision=revision), environ) is None


def test_a_reference_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "secret")
    cached(tmp_path, "../../../../secret")
    assert model_files(Model(id="acme/x"), {"HF_HOME": str(tmp_path)}) is None


def test_weights_are_those_of_the_index_where_they_lie_there(tmp_path: Path) -> None:
    folder = put(tmp_path, SHAPELESS, a=b"x" * 10, b=b"x" * 5, consolidated=b"x" * 99)
    model = Model(id="acme/x", path=str(folder))

    def weights() -> int:
        found = model_files(model, {})
        assert found is not None and found.facts is not None
        return found.facts.weight_bytes

    assert weights() == 15
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 7}, "weight_map": {"t": "a.safetensors"}}))
    assert weights() == 10
    index.write_text(json.dumps({"metadata": {"total_size": 7}, "weight_map": {"t": "gone.safetensors"}}))
    assert weights() == 7
    for hostile in (
        "[",
        "[" * 100_000,
        "[]",
        '{"metadata": {"total_size": -1}}',
        '{"metadata": [], "weight_map": 1}',
    ):
        index.write_text(hostile)
        assert weights() == 15
    index.write_text(json.dumps({"weight_map": {"t": "../../etc/passwd"}}))
    assert weights() == 15


def test_without_the_weights_their_shapes_tell_the_size(tmp_path: Path) -> None:
    """Half a download, pointers of Git LFS or an index that lies do not make a model smaller."""
    folder = put(tmp_path, LLAMA_405B)
    model = Model(id="acme/x", path=str(folder))
    for name, text in (
        ("README.md", ""),
        ("model-00001-of-00191.safetensors", "version https://git-lfs.github.com/spec/v1"),
        ("model.safetensors.index.json", json.dumps({"metadata": {"total_size": 1}})),
    ):
        (folder / name).write_text(text)
        found = model_files(model, {})
        assert found is not None and found.facts is not None
        assert found.facts.weight_bytes == pytest.approx(811.7e9, rel=0.01)


def test_a_model_too_large_for_its_gpu_is_refused_by_its_config_json_alone(tmp_path: Path) -> None:
    put(tmp_path, LLAMA_405B)
    found = judged("acme/x", tmp_path, gpus="{count: 8, model: H100-SXM-80GB}")
    assert {each.rule for each in found.errors} == {"MEM001"} and len(found.errors) == 2
    assert "weights take 756.0" in found.errors[0].message


@pytest.mark.parametrize("bad", ["{", "[" * 100_000, '{"num_hidden_layers": "x"}', " " * (5 * 2**20)])
def test_a_bad_file_is_told_and_never_a_traceback(tmp_path: Path, bad: str) -> None:
    put(tmp_path, bad)
    for model, rules in (("acme/x", {"MODEL002", "MODEL006"}), ("openai/gpt-oss-120b", {"MODEL006"})):
        found = judged(model, tmp_path)
        assert {each.rule for each in (*found.errors, *found.warnings)} == rules
        assert all("config.json" in each.message for each in (*found.errors, *found.warnings))


def test_pipes_folders_and_what_may_not_be_read_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "config.json")
    (tmp_path / "folder" / "config.json").mkdir(parents=True)
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "config.json").symlink_to(tmp_path / "loop" / "config.json")
    for name in ("pipe", "folder", "loop"):
        assert model_files(Model(id="acme/x", path=str(tmp_path / name)), {}) is None


def test_a_model_that_only_its_own_file_tells_is_sized_and_the_source_named(tmp_path: Path) -> None:
    put(tmp_path, a=b"x" * 1000)
    found = judged("acme/x", tmp_path)
    assert not found.errors and found.topology is not None and found.topology.kv is not None
    assert found.topology.kv.chunk_bytes == 36 * 2 * 256 * 8 * 128 * 2
    assert found.topology.max_model_len == 40960


def test_its_length_counts_for_the_rest_of_the_spec(tmp_path: Path) -> None:
    put(tmp_path)
    found = judged("acme/x", tmp_path, bench="bench: {input_len: 40000, output_len: 1000}\n")
    assert [each.rule for each in found.warnings] == ["BENCH001"] and "40960" in found.warnings[0].message


def test_the_spec_wins_over_the_file_and_the_difference_is_told(tmp_path: Path) -> None:
    put(tmp_path)
    found = judged("acme/x", tmp_path, ", kv: {layers: 30, kv_heads: 8, head_dim: 128}")
    [warning] = found.warnings
    assert warning.rule == "MODEL005" and "30 here and 36 in" in warning.message
    assert str(tmp_path) in warning.message and warning.place and warning.place.path == "model.kv.layers"
    assert (
        found.topology and found.topology.kv and found.topology.kv.chunk_bytes == 30 * 2 * 256 * 8 * 128 * 2
    )


def judged(model: str, folder: Path, more: str = "", bench: str = "", gpus: str = "8") -> Judgement:
    spec = (
        f"cluster: chat\nhosts: [{{name: gpu01, address: 10.0.0.11, gpus: {gpus}}}]\n"
        f"model: {{id: {model}, path: {folder}{more}}}\n{bench}"
        "serving: {prefillers: {}, decoders: {}}\n"
    )
    seen = inspect(spec, "c.yaml")
    assert seen.cluster is not None
    return judge(seen, model_files(seen.cluster.model, {}))
