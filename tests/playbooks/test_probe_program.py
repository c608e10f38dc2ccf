from __future__ import annotations

import ast
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pdctl.assets import assets
from pdctl.errors import HostError
from pdctl.hosts.probe_source import MODULES, probe_answer, probe_program
from tests.playbooks.conftest import directory_row, file_row, request_in

SOURCES = sorted(assets("playbooks").glob("*/*.py"))


def printed(request: dict[str, Any]) -> str:
    """As over ssh: a bare Python with nothing installed, the program on its standard input."""
    command = [sys.executable, "-I", "-S", "-"]
    done = subprocess.run(command, input=probe_program(request), capture_output=True, text=True, check=True)
    return done.stdout


def test_the_program_needs_nothing_but_python_and_answers_the_request(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"hello\n")
    rows = [file_row(tmp_path / "x", b'it\'s "{quoted}"\n'), directory_row(tmp_path)]
    answer = probe_answer(printed(request_in(tmp_path, resources=rows, content_limit=9)))
    assert [row["path"] for row in answer["resources"]] == [str(tmp_path / "x"), str(tmp_path)]
    assert answer["contents"] == {str(tmp_path / "x"): "aGVsbG8K"} and not answer["errors"]


def test_noise_around_the_answer_does_no_harm(tmp_path: Path) -> None:
    output = "Welcome to Ubuntu!\n{}\n" + printed(request_in(tmp_path)) + "Connection closed.\n"
    assert probe_answer(output)["resources"] == []


@pytest.mark.parametrize(
    "output", ["", "sudo: a password is required\n", "x\n-----BEGIN PDCTL ANSWER-----\n{"]
)
def test_a_probe_that_did_not_finish_is_an_error_with_its_last_words(output: str) -> None:
    with pytest.raises(HostError, match=r"did not finish.*(nothing|password|\{)"):
        probe_answer(output)


def test_looking_costs_a_host_less_than_150_ms_of_cpu(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"f{number}").write_bytes(b"x")
    rows = [file_row(tmp_path / f"f{number}") for number in range(8)]
    rows += [file_row(tmp_path / "f0", secret=True), {"kind": "package", "name": "libnuma1"}]
    request = request_in(tmp_path, resources=rows)
    costs = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        printed(request)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(costs) < 0.15


def test_the_program_holds_every_module_that_observing_imports() -> None:
    imported = {
        name.removeprefix("ansible.module_utils.")
        for module in MODULES
        for name in imports(assets("playbooks") / "module_utils" / f"{module}.py")
        if name.startswith("ansible")
    }
    assert imported | {"pdctl_observe"} == set(MODULES)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_runs_on_hosts_is_python_3_9_of_the_standard_library(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 9))
    known = sys.stdlib_module_names | {"ansible"}
    assert {name.split(".")[0] for name in imports(path)} <= known


def test_the_request_travels_as_json(tmp_path: Path) -> None:
    request = request_in(tmp_path, resources=[], note="\u2028 ' \" \\ {x} \n")
    line = next(line for line in probe_program(request).splitlines() if line.startswith("answer ="))
    text = ast.literal_eval(line.partition("json.loads(")[2].rstrip(")"))
    assert json.loads(text) == request


def imports(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {
        name
        for node in nodes
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
