"""`pdctl validate` and `pdctl explain` as a user or a pipeline meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import pdctl

SOUND = """\
cluster: chat
hosts: [{name: gpu01, address: 10.0.0.11, gpus: 8}]
model: {id: openai/gpt-oss-120b}
serving: {prefillers: {}, decoders: {}}
"""
DOUBTFUL = SOUND.replace("decoders: {}", "decoders: {}, ports: {prefiller: 40100}")
WRONG = DOUBTFUL.replace("decoders: {}", "decoders: {extra_args: [--kv-cache-dtype, fp8]}")
SUPPRESSED = DOUBTFUL + "suppress: [{rule: PORT005, reason: the range was moved here}]\n"
FORMS = ["text", "json", "sarif", "github"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("spec", "words", "code"),
    [
        (SOUND, [], 0),
        (SOUND, ["--strict"], 0),
        (DOUBTFUL, [], 0),
        (DOUBTFUL, ["--strict"], 2),
        (WRONG, [], 1),
        (WRONG, ["--strict"], 1),
        (SUPPRESSED, ["--strict"], 0),
    ],
)
def test_the_exit_code_says_what_was_found(
    tmp_path: Path, form: str, spec: str, words: list[str], code: int
) -> None:
    (tmp_path / "cluster.yaml").write_text(spec)
    done = pdctl(tmp_path, "validate", "--format", form, *words)
    assert done.returncode == code, done.stderr
    if form in ("json", "sarif"):
        json.loads(done.stdout)
    if form == "github":
        assert done.stdout.count("::warning ") == (spec in (DOUBTFUL, WRONG))
        assert done.stdout.count("::error ") == (spec == WRONG)
    assert ("--strict allows none" in done.stderr) == (code == 2)


def test_a_warning_is_told_with_its_rule(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(DOUBTFUL)
    done = pdctl(tmp_path, "validate")
    assert done.stderr.splitlines() == [
        "warning: cluster.yaml:4:60: serving.ports.prefiller: port 40100 of prefiller-0 (http) is in"
        " 32768-60999, which Linux gives to outgoing connections [PORT005]",
        "  hint: choose ports below 32768",
    ]
    document = json.loads(pdctl(tmp_path, "validate", "--json").stdout)
    assert [warning["rule"] for warning in document["warnings"]] == ["PORT005"]


def test_what_is_suppressed_is_still_told(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(SUPPRESSED)
    done = pdctl(tmp_path, "validate")
    assert done.stderr == "" and "suppressed: " in done.stdout and "(the range was moved here)" in done.stdout
    [found] = json.loads(pdctl(tmp_path, "validate", "--format", "json").stdout)["suppressed"]
    assert (found["rule"], found["reason"]) == ("PORT005", "the range was moved here")


def test_errors_are_one_document_with_their_rules(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(WRONG)
    done = pdctl(tmp_path, "validate", "--json")
    document = json.loads(done.stdout)
    assert [error["rule"] for error in document["errors"]] == ["MATCH004"]
    assert "[MATCH004]" in done.stderr


def test_a_suppression_that_finds_nothing_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(SUPPRESSED.replace("40100", "7100"))
    done = pdctl(tmp_path, "validate", "--strict")
    assert done.returncode == 2 and "[SUPPRESS003]" in done.stderr


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_file_is_an_error_in_every_form(tmp_path: Path, form: str) -> None:
    done = pdctl(tmp_path, "validate", "nowhere.yaml", "--format", form)
    assert done.returncode == 1
    assert done.stderr.startswith("error: nowhere.yaml: does not exist [FILE001]\n")
    assert ("FILE001" in done.stdout) == (form != "text")


def test_a_field_is_explained(tmp_path: Path) -> None:
    done = pdctl(tmp_path, "explain", "serving.lmcache.chunk_size")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[0] == "serving.lmcache.chunk_size"
    assert {"type     whole number, at least 1", "default  256", "unit     tokens"} <= set(lines)
    assert "chunk_size: 256" in lines
    document = json.loads(pdctl(tmp_path, "explain", "serving.lmcache.chunk_size", "--json").stdout)
    assert (document["type"], document["unit"], document["default"]) == (
        "whole number, at least 1",
        "tokens",
        "256",
    )


@pytest.mark.parametrize("name", ["PORT003", "port003"])
def test_a_rule_is_explained(tmp_path: Path, name: str) -> None:
    done = pdctl(tmp_path, "explain", name)
    assert done.stdout.startswith("PORT003 (error): Two sockets of one host want the same port\n")
    assert "Why: " in done.stdout and "Mend: " in done.stdout and "ports: {prefiller: 7200}" in done.stdout
    assert json.loads(pdctl(tmp_path, "explain", name, "--json").stdout)["severity"] == "error"


def test_the_keys_of_the_file_are_listed(tmp_path: Path) -> None:
    done = pdctl(tmp_path, "explain")
    assert done.returncode == 0 and done.stdout.splitlines()[0].startswith("cluster ")
    assert "suppress" in json.loads(pdctl(tmp_path, "explain", "--json").stdout)["keys"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("serving.prefillers.cuont", "serving.prefillers.count"),
        ("PORT03", "PORT003"),
        ("zzz", "docs/rules.md"),
    ],
)
def test_an_unknown_name_leads_to_the_nearest_ones(tmp_path: Path, name: str, hint: str) -> None:
    done = pdctl(tmp_path, "explain", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"there is no field or rule `{name}`" in done.stderr and hint in done.stderr


H100 = SOUND.replace("gpus: 8", "gpus: {count: 8, model: H100-SXM-80GB}").replace(
    "refillers: {}", "refillers: TP"
)
SIZED = H100.replace("decoders: {}", "decoders: TP").replace("TP", "{tensor_parallel: 2}")


def test_what_a_gpu_of_each_role_holds_is_told(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(SIZED)
    done = pdctl(tmp_path, "validate")
    assert done.returncode == 0, done.stderr
    assert "36 layers with KV, 8 KV heads of 64 values in 2 bytes (pdctl's table of models)" in done.stdout
    assert (
        "decoders, each GPU: weights 30.4 GiB, KV 36864 bytes a token, buffer 4.5 GiB, room for"
        in done.stdout
    )
    assert "131328 prompt tokens in flight per decoder" in done.stdout
    sizes = json.loads(pdctl(tmp_path, "validate", "--json").stdout)["sizes"]
    [prefiller, decoder] = sizes["roles"]
    assert (prefiller["role"], prefiller["in_flight_tokens"]) == ("prefillers", None)
    assert (decoder["chunk_bytes"], decoder["in_flight_tokens"]) == (9437184, 131328)
    assert decoder["buffer_bytes"] == 513 * 9437184 and decoder["kv_copies"] == 1


def test_a_model_is_read_from_the_hugging_face_cache_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cluster.yaml").write_text(SIZED.replace("openai/gpt-oss-120b", "acme/x"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    done = pdctl(tmp_path, "validate")
    assert done.returncode == 1 and "[MODEL002]" in done.stderr
    commit = "c" * 40
    config = tmp_path / "hub" / "models--acme--x" / "snapshots" / commit / "config.json"
    config.parent.mkdir(parents=True)
    (tmp_path / "hub" / "models--acme--x" / "refs").mkdir()
    (tmp_path / "hub" / "models--acme--x" / "refs" / "main").write_text(commit)
    shape = {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512}
    config.write_text(json.dumps(shape | {"max_position_embeddings": 4096}))
    done = pdctl(tmp_path, "validate")
    assert done.returncode == 0, done.stderr
    assert f"model: 4 layers with KV, 8 KV heads of 64 values in 2 bytes ({config})" in done.stdout
    config.write_text("[" * 100_000)
    done = pdctl(tmp_path, "validate")
    assert done.returncode == 1 and f"({config} is nested too deeply)" in done.stderr
    assert "Traceback" not in done.stderr
