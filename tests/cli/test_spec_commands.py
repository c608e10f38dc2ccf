"""`pdctl init | validate | schema`, and how any command refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import pdctl
from tests.examples import spec_path


def test_init_writes_a_file_that_is_valid_and_leads_on(tmp_path: Path) -> None:
    done = pdctl(tmp_path, "init")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Wrote cluster.yaml. Edit it, then run `pdctl validate` and `pdctl diff`.\n"
    checked = pdctl(tmp_path, "validate")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.startswith("cluster.yaml is valid: 2 instances on 1 host")


def test_init_names_no_file_that_nothing_writes(tmp_path: Path) -> None:
    pdctl(tmp_path, "init")
    lines = (tmp_path / "cluster.yaml").read_text().splitlines()
    assert not [line for line in lines if line.startswith("# yaml-language-server")]
    assert [line for line in lines if "`pdctl schema > cluster.schema.json`" in line]


def test_init_leaves_a_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("mine\n")
    done = pdctl(tmp_path, "init")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: cluster.yaml: the file is there already\nhint: name another file\n"
    assert (tmp_path / "cluster.yaml").read_text() == "mine\n"
    assert json.loads(pdctl(tmp_path, "init", "other.yaml", "--json").stdout) == {"written": "other.yaml"}


def test_init_says_why_a_file_cannot_be_written(tmp_path: Path) -> None:
    done = pdctl(tmp_path, "init", "no/such/cluster.yaml")
    assert done.returncode == 1 and "no/such/cluster.yaml: cannot be written: No such file" in done.stderr


@pytest.mark.parametrize("words", [["schema"], ["schema", "--json"]])
def test_schema_prints_what_the_repository_holds(tmp_path: Path, words: list[str]) -> None:
    committed = Path(__file__).parents[2] / "docs" / "schema" / "cluster.schema.json"
    done = pdctl(tmp_path, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads(committed.read_text())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["validate", "--nonsense"], "No such option: --nonsense"),
        (["aply"], "No such command 'aply'"),
        (["validate", "a.yaml", "b.yaml"], "unexpected extra argument"),
        (["logs"], "Missing argument"),
        (["bench", "--tolerate", "-1"], "--tolerate"),
    ],
)
def test_a_wrong_call_ends_with_1_since_2_means_a_difference(
    tmp_path: Path, words: list[str], said: str
) -> None:
    done = pdctl(tmp_path, *words)
    assert (done.returncode, done.stdout) == (1, "") and said in done.stderr and "Usage:" in done.stderr


def test_an_unknown_instance_is_told_from_those_that_are_there(tmp_path: Path) -> None:
    done = pdctl(tmp_path, "logs", "decoder-9", str(spec_path("lab-simulator")))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "error: there is no instance `decoder-9`",
        "hint: there are: decoder-0, decoder-1, prefiller-0, proxy",
    ]


def test_an_error_is_a_document_too_when_json_is_asked_for(tmp_path: Path) -> None:
    done = pdctl(tmp_path, "logs", "decoder-9", str(spec_path("lab-simulator")), "--json")
    assert done.returncode == 1 and "decoder-9" in done.stderr
    assert json.loads(done.stdout) == {
        "error": "there is no instance `decoder-9`",
        "where": None,
        "hint": "there are: decoder-0, decoder-1, prefiller-0, proxy",
    }


def test_several_errors_are_one_document_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("cluster: chat\nhosts: [{name: a}]\nmodel: {}\nservin: {}\n")
    done = pdctl(tmp_path, "validate", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1 and found["error"] == "3 errors in cluster.yaml"
    assert [error["where"] for error in found["errors"]] == [
        "cluster.yaml:1:1",
        "cluster.yaml:3:8: model",
        "cluster.yaml:4:1: servin",
    ]
