"""Vocabulary files that engines would download: asked for on hosts without internet, and looked at here."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from pdctl.desired import desire
from pdctl.errors import SpecError
from pdctl.knowledge.models import MODELS
from pdctl.knowledge.vocabularies import NEEDED, PUBLISHED, VOCABULARIES, Vocabulary
from pdctl.spec.load import inspect
from pdctl.spec.vocabulary_files import vocabulary_files
from pdctl.state import Directory, File, Unit
from pdctl.topology.judge import Judgement, judge, judge_file
from tests.desired.rendered import read
from tests.spec.breaking import sound_but_for
from tests.spec.test_config_json import GPT_OSS

O200K, CL100K = "o200k_base.tiktoken", "cl100k_base.tiktoken"
OSS = "offline: true\nmodel: {id: openai/gpt-oss-120b, path: /models/gpt-oss-120b%s}\n"
WORDS = {O200K: b"IQ== 0\nIg== 1\n", CL100K: b"IQ== 0\n"}


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files in the place of the published ones."""
    for name, data in WORDS.items():
        monkeypatch.setitem(VOCABULARIES, name, Vocabulary(hashlib.sha256(data).hexdigest(), len(data)))


def judged(folder: Path, part: str) -> Judgement:
    path = folder / "cluster.yaml"
    path.write_text(sound_but_for(part))
    return judge_file(path)


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(WORDS[name])
    return folder


def only(found: Judgement) -> SpecError:
    [error] = found.errors
    assert found.topology is None and not found.warnings
    return error


def test_what_is_published_is_told_whole() -> None:
    assert PUBLISHED.endswith("/") and set(VOCABULARIES) == {O200K, CL100K}
    assert all(
        re.fullmatch("[0-9a-f]{64}", each.sha256) and each.size > 10**6 for each in VOCABULARIES.values()
    )
    assert {name for names in NEEDED.values() for name in names} <= VOCABULARIES.keys()
    needing = {name for name, model in MODELS.items() if model.vocabulary}
    assert needing == {"openai/gpt-oss-20b", "openai/gpt-oss-120b"}


def test_gpt_oss_without_internet_needs_a_folder_and_the_error_says_what_goes_there(tmp_path: Path) -> None:
    error = only(judged(tmp_path, OSS % ""))
    assert error.rule == "MODEL009" and error.place and error.place.path == "model"
    assert O200K in error.message and "offline" in error.message
    assert PUBLISHED + O200K in str(error.hint) and "model.vocabulary" in str(error.hint)


@pytest.mark.parametrize(
    "part",
    [
        "model: {id: openai/gpt-oss-120b, path: /m}\n",
        "offline: true\nmodel: {id: Qwen/Qwen3-8B, path: /m}\n",
        # the hosts have it already, and every role says where
        (OSS % "") + "serving: {prefillers: {env: {TIKTOKEN_ENCODINGS_BASE: /v}}, decoders: {env:"
        " {TIKTOKEN_ENCODINGS_BASE: /v}}}\n",
    ],
)
def test_others_need_none(tmp_path: Path, part: str) -> None:
    found = judged(tmp_path, part)
    assert not found.errors and found.topology is not None and found.topology.vocabulary == ()


def test_a_role_that_is_not_told_where_the_hosts_have_it_still_needs_one(tmp_path: Path) -> None:
    one = "serving: {prefillers: {env: {TIKTOKEN_ENCODINGS_BASE: /v}}, decoders: {}}\n"
    assert only(judged(tmp_path, OSS % "" + one)).rule == "MODEL009"


def test_a_fine_tuned_gpt_oss_is_known_by_its_config_json(tmp_path: Path) -> None:
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "config.json").write_text(json.dumps(GPT_OSS))
    part = f"offline: true\nmodel: {{id: me/tuned, path: {tmp_path}/tuned}}\n"
    assert only(judged(tmp_path, part)).rule == "MODEL009"


@pytest.mark.usefixtures("published")
def test_the_folder_is_found_from_the_spec_and_what_is_missing_there_is_named(tmp_path: Path) -> None:
    error = only(judged(tmp_path, OSS % ", vocabulary: ./words"))
    assert error.rule == "MODEL010" and error.place and error.place.path == "model.vocabulary"
    assert error.message == f"`{O200K}` is not in {tmp_path}/words: there is no such folder"
    put(tmp_path / "words", CL100K)
    error = only(judged(tmp_path, OSS % ", vocabulary: ./words"))
    assert error.message == f"`{O200K}` is not in {tmp_path}/words"
    assert PUBLISHED + O200K in str(error.hint) and VOCABULARIES[O200K].sha256 in str(error.hint)


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("name", [O200K, CL100K])
@pytest.mark.parametrize("damage", ["another byte", "cut short", "a folder"])
def test_a_damaged_file_is_an_error_also_where_it_is_not_needed(
    tmp_path: Path, name: str, damage: str
) -> None:
    path, sound = put(tmp_path / "words", O200K, CL100K) / name, WORDS[name]
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    else:
        path.write_bytes(b"x" + sound[1:] if damage == "another byte" else sound[:-1])
    said = {
        "another byte": "has the sha256 ",
        "cut short": f"has {len(sound) - 1} bytes, the published file {len(sound)}",
        "a folder": "is no regular file",
    }
    error = only(judged(tmp_path, OSS % ", vocabulary: words"))
    assert error.rule == "MODEL010" and error.message.startswith(f"{path} {said[damage]}")


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("names", [(O200K,), (O200K, CL100K)])
def test_what_is_there_goes_to_every_host_with_an_engine(tmp_path: Path, names: tuple[str, ...]) -> None:
    put(tmp_path / "words", *names)
    two = "hosts: [{name: a, address: 10.0.0.1, gpus: 1}, {name: b, address: 10.0.0.2, gpus: 1},"
    found = judged(
        tmp_path,
        (OSS % ", vocabulary: words") + two + " {name: c, address: 10.0.0.3}]\n"
        "serving: {prefillers: {hosts: [a]}, decoders: {hosts: [b]}, proxy: {host: c}}\n",
    )
    state = desire(found.sound())
    files = {key: r for key, r in state.items() if isinstance(r, File) and "vocabulary" in r.path}
    assert {(key.host, r.path) for key, r in files.items()} == {
        (host, f"/opt/pdctl/models/vocabulary/{name}") for host in "ab" for name in names
    }
    for file in files.values():
        name = Path(file.path).name
        assert file.digest == f"sha256:{VOCABULARIES[name].sha256}"
        assert (file.mode, file.source, file.content) == ("0644", f"models/vocabulary/{name}", None)
    folders = {r.path for r in state.values() if isinstance(r, Directory)}
    assert {"/opt/pdctl/models", "/opt/pdctl/models/vocabulary"} <= folders
    wanted = {f"file:/opt/pdctl/models/vocabulary/{name}" for name in names}
    units = [r for r in state.values() if isinstance(r, Unit)]
    assert [wanted <= {*unit.inputs} for unit in units] == [unit.role != "proxy" for unit in units]
    for engine in read(state).engines.values():
        assert engine.env["TIKTOKEN_ENCODINGS_BASE"] == "/opt/pdctl/models/vocabulary"
        assert engine.env["HF_HUB_OFFLINE"] == "1"


@pytest.mark.usefixtures("published")
def test_with_internet_a_named_folder_is_used_too(tmp_path: Path) -> None:
    put(tmp_path / "words", O200K)
    found = judged(tmp_path, "model: {id: openai/gpt-oss-20b, vocabulary: words}\n")
    [engine, *_] = read(desire(found.sound())).engines.values()
    assert engine.env["TIKTOKEN_ENCODINGS_BASE"] and "HF_HUB_OFFLINE" not in engine.env


def test_weights_by_name_are_doubtful_without_internet(tmp_path: Path) -> None:
    found = judged(tmp_path, "offline: true\nmodel: {id: Qwen/Qwen3-8B}\n")
    assert [(each.rule, each.severity) for each in found.warnings] == [("MODEL011", "warning")]


def test_the_variable_and_the_folder_do_not_stand_together() -> None:
    part = (OSS % ", vocabulary: words") + (
        "serving: {prefillers: {env: {TIKTOKEN_ENCODINGS_BASE: /v}}, decoders: {}}\n"
    )
    error = only(judge(inspect(sound_but_for(part), "c.yaml")))
    assert error.rule == "ENV001" and "model.vocabulary" in str(error.hint)


def test_a_folder_that_cannot_be_named_holds_nothing() -> None:
    found = vocabulary_files(Path("/nonexistent/\0"))
    assert (found.sound, found.damaged, found.exists) == ((), {}, False)


def test_the_home_of_nobody_is_a_folder_like_any_other(tmp_path: Path) -> None:
    error = only(judged(tmp_path, OSS % ", vocabulary: ~no-such-user/words"))
    assert error.message == f"`{O200K}` is not in {tmp_path}/~no-such-user/words: there is no such folder"
