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
