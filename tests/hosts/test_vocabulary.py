"""A vocabulary file of the user's own arrives on hosts without internet, is kept there and rendered too."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.hosts.line import HOSTS, PLACES, Line, line_on_hosts
from tests.hosts.plays import inside, snapshot

pytestmark = pytest.mark.hosts

NAME = "o200k_base.tiktoken"
ON_HOST = f"/opt/pdctl/models/vocabulary/{NAME}"
WORDS = b"IQ== 0\nIg== 1\n" * 1000
# The published file cannot be had without internet: here another one counts as published.
PDCTL = f"""
from pdctl.knowledge.vocabularies import VOCABULARIES, Vocabulary
VOCABULARIES[{NAME!r}] = Vocabulary({hashlib.sha256(WORDS).hexdigest()!r}, {len(WORDS)})
from pdctl.cli.main import run
run()
"""
SPEC = {
    "offline": True,
    "model": {
        "id": "openai/gpt-oss-20b",
        "served_name": "oss",
        "vocabulary": "./words",
        "max_model_len": 1024,
    },
}
ENGINES = {name: host for name, host in PLACES.items() if name != "proxy"}


class Offline(Line):
    """pdctl for which WORDS is the published file."""

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PDCTL, *words],
            cwd=self.folder,
            env=self.environment | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    with line_on_hosts(tmp_path_factory, bound=False) as plain:
        line = Offline(plain.lab, plain.folder)
        (line.folder / "words").mkdir()
        line.write(SPEC)
        yield line


def test_nothing_is_begun_without_the_file(line: Offline) -> None:
    before = [snapshot(line.lab, host) for host in HOSTS]
    ran = line.pdctl("apply", "--yes").must(1)
    assert f"`{NAME}` is not in {line.folder}/words" in ran.err and "MODEL010" in ran.err
    assert [snapshot(line.lab, host) for host in HOSTS] == before


def test_the_file_is_on_both_hosts_before_engines_start_with_it(line: Offline) -> None:
    (line.folder / "words" / NAME).write_bytes(WORDS)
    line.apply()
    digest = hashlib.sha256(WORDS).hexdigest()
    for host in HOSTS:
        assert inside(line.lab, host, f"sha256sum {ON_HOST}").split()[0] == digest
        inside(line.lab, host, f"runuser -u pdctl -- cat {ON_HOST} > /dev/null")
    lives = line.lives()
    for name, host in ENGINES.items():
        variables = inside(line.lab, host, f"tr '\\0' '\\n' < /proc/{lives[name].pid}/environ").splitlines()
        assert f"TIKTOKEN_ENCODINGS_BASE={Path(ON_HOST).parent}" in variables
        assert "HF_HUB_OFFLINE=1" in variables
    assert line.diff()["empty"]


def test_a_file_that_is_gone_from_a_host_comes_back(line: Offline) -> None:
    (line.folder / "words" / NAME).write_bytes(WORDS)
    line.apply("--no-verify")
    line.inside(f"rm {ON_HOST} /opt/pdctl/bundle/models/vocabulary/{NAME}", "h2")
    assert [row["id"] for row in line.diff()["drift"]] == [f"file:{ON_HOST}"]
    line.apply("--no-verify")
    assert inside(line.lab, "h2", f"cat {ON_HOST}").encode() == WORDS and line.diff()["empty"]


def test_a_rendered_project_carries_it(line: Offline) -> None:
    (line.folder / "words" / NAME).write_bytes(WORDS)
    line.pdctl("render", "--out", "project").must()
    assert (line.folder / "project/bundle/models/vocabulary" / NAME).read_bytes() == WORDS
