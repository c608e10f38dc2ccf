"""Edges of the command line: wrong usage as JSON, files that cannot be written, terminals of old."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import spec_path

LAB = str(spec_path("lab"))


def pdctl(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pdctl", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, check=False)


@pytest.mark.parametrize(
    "words",
    [
        ("diff", "--json", "--bogus"),
        ("ask", "hi", "--json", "--max-tokens", "0"),
        ("logs", "decoder-0", LAB, "--follow", "--json"),
        ("verify", LAB, "--against", LAB, "--json"),
    ],
)
def test_what_is_refused_is_one_json_document_when_json_was_asked_for(words: tuple[str, ...]) -> None:
    ran = pdctl(*words)
    assert ran.returncode == 1 and json.loads(ran.stdout)["error"] and ran.stderr


def test_a_cluster_is_not_compared_with_a_disaggregated_one() -> None:
    assert "being equal to it proves nothing" in pdctl("verify", LAB, "--against", LAB).stderr


def test_a_full_disk_behind_stdout_is_an_error_and_no_bug() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "pdctl", "schema"]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 1
    assert "No space left on device" in ran.stderr and "bug" not in ran.stderr


def test_a_terminal_without_signs_gets_their_numbers(tmp_path: Path) -> None:
    spec = tmp_path / "spec-\u00fc.yaml"
    ran = pdctl("init", str(spec), PYTHONIOENCODING="ascii")
    assert ran.returncode == 0 and "spec-\\xfc.yaml" in ran.stdout and not ran.stderr


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ('secrets: {HF_TOKEN: {from_file: "~no-such-user/token"}}', "secrets.HF_TOKEN: "),
        ('ssh: {key: "~no-such-user/token"}', "`ssh.key` cannot be used: "),
    ],
)
def test_the_home_of_a_user_who_is_not_there_is_a_file_that_is_not_there(
    tmp_path: Path, part: str, said: str
) -> None:
    spec = tmp_path / "cluster.yaml"
    spec.write_text(
        "cluster: chat\nhosts: [{name: h1, address: 127.0.0.1}]\nengine: simulator\nmodel: {id: pdctl/tiny}\n"
        f"serving: {{prefillers: {{}}, decoders: {{}}}}\n{part}\n"
    )
    ran = pdctl("diff", str(spec), XDG_STATE_HOME=str(tmp_path))
    assert ran.returncode == 1 and "bug" not in ran.stderr
    assert f"{said}{tmp_path}/~no-such-user/token" in ran.stderr and "No such file" in ran.stderr
