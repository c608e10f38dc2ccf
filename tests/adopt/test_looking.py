"""The program that looks at a host, run against real processes here: what it sees, and what it keeps back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_adopt_processes as processes
from ansible.module_utils import pdctl_adopt_secrets as secrecy

from pdctl.adopt.look import REQUEST, look_program
from pdctl.adopt.observed import read_answer
from pdctl.hosts.probe_source import probe_answer
from tests.cli.program import pdctl

TOKENS = {
    "HF_TOKEN": "hf_0123456789abcdefghijklmnopqrstuvwxyz",
    "VLLM_API_KEY": "short",
    "SOME_PASSWORD": "two words",
    "NCCL_DEBUG_FILE": "sk-0123456789abcdefghijklmnopqrstuvwxyz",
}
WORDS = [
    *("--api-key", "flag-secret-1", "flag-secret-2", "--hf-token=flag-secret-3"),
    *("--additional-config", '{"api_key": "json-secret", "bytes_per_token": 512}'),
    *("--header", "Authorization: Bearer bearer-secret", "--x", "http://ann:url-secret@h/"),
]
IN_WORDS = ("flag-secret-1", "flag-secret-2", "flag-secret-3", "json-secret", "bearer-secret", "url-secret")
FILE = """\
remote_url: redis://:file-secret-1@h
extra_config: {aws_secret_access_key: file-secret-2}
chunk_size: 32
"""
ALL = (*TOKENS.values(), *IN_WORDS, "file-secret-1", "file-secret-2")


@contextmanager
def engine(folder: Path, model: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is called like vLLM and does nothing."""
    program = folder / "vllm"
    program.write_text("import sys\nprint('up', flush=True)\nsys.stdin.read()\n")
    (folder / "lmcache.yaml").write_text(FILE)
    transfer = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_consumer"}
    words = ["serve", model, "--port", "7777", "--kv-transfer-config", json.dumps(transfer), *WORDS]
    environment = {**TOKENS, "LMCACHE_CONFIG_FILE": "lmcache.yaml", "PYTHONHASHSEED": "0", "EDITOR": "vi"}
    with subprocess.Popen(
        [sys.executable, str(program), *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None and running.stdout.readline()
        yield running


def printed() -> str:
    command = ["/usr/bin/python3", "-I", "-S", "-"]
    done = subprocess.run(command, input=look_program(), capture_output=True, text=True, check=True)
    return done.stdout


def found(text: str) -> list[str]:
    return [value for value in ALL if value in text]


def test_a_process_is_seen_with_words_variables_and_files_and_no_secret_leaves_the_host(
    tmp_path: Path,
) -> None:
    with engine(tmp_path, "test/seen") as running:
        everything = [Path(f"/proc/{running.pid}/{name}").read_text() for name in ("environ", "cmdline")]
        assert found("".join([*everything, FILE])) == list(ALL), "the search itself must find them"
        text = printed()
    assert found(text) == []
    answer = read_answer("here", probe_answer(text))
    [process] = [p for p in answer.processes if p.pid == running.pid]
    assert process.kind == "engine" and process.argv[2:6] == ("serve", "test/seen", "--port", "7777")
    assert process.environment == {"LMCACHE_CONFIG_FILE": "lmcache.yaml", "PYTHONHASHSEED": "0"}
    assert set(process.secrets) == set(TOKENS) and "EDITOR" in process.rest
    assert "chunk_size: 32" in process.files["lmcache.yaml"]
    assert any("512" in word for word in process.argv), "a number is no secret"


def test_the_draft_of_it_and_all_that_is_printed_hold_no_secret(tmp_path: Path) -> None:
    model = f"test/{tmp_path.name}"
    with engine(tmp_path, model):
        words = ("localhost", "--local", "--no-sudo", "--model", model, "--out", "draft.yaml")
        done = pdctl(tmp_path, "adopt", *words, "--json")
    draft = (tmp_path / "draft.yaml").read_text()
    assert found(draft + done.stdout + done.stderr) == []
    assert "from_env: VLLM_API_KEY" in draft and "from_env: HF_TOKEN" in draft
    # A decoder alone, of a model nobody knows: written, told, and an error.
    assert done.returncode == 1 and "NOT VALID YET" in draft
    assert json.loads(done.stdout)["valid"] is False


HIDDEN: list[tuple[list[str], list[str]]] = [
    (["--api-key", "a", "b", "--port", "1"], ["--api-key", "***", "***", "--port", "1"]),
    (["--api_key=a"], ["--api_key=***"]),
    (["--max-num-batched-tokens", "8"], ["--max-num-batched-tokens", "8"]),
    (["serve", "/data/hf_models_x"], ["serve", "/data/hf_models_x"]),
    (["serve", "/data/sk-learn-model/1"], ["serve", "/data/sk-learn-model/1"]),
    (["hf_short_one"], ["***"]),
    (["--x=hf_short_one"], ["--x=***"]),
    (['{"token": "a b", "n": 1}'], ['{"token": ***, "n": 1}']),
    (["postgres://u:p@h/d"], ["postgres://***@h/d"]),
    (["--tokenizer", "org/x"], ["--tokenizer", "org/x"]),
]


@pytest.mark.parametrize(("words", "told"), HIDDEN, ids=[" ".join(words) for words, _ in HIDDEN])
def test_only_secrets_are_hidden_in_words(words: list[str], told: list[str]) -> None:
    assert secrecy.Secrecy(REQUEST["names"], REQUEST["tokens"]).words(words) == told


GROUPS: list[tuple[str, dict[str, Any]]] = [
    ("/system.slice/vllm-p.service", {"unit": "vllm-p.service"}),
    ("/system.slice/system-vllm.slice/vllm@3.service", {"unit": "vllm@3.service"}),
    ("/system.slice/run-r0af1.service", {"unit": "run-r0af1.service"}),
    (
        "/user.slice/user-1000.slice/user@1000.service/app.slice/v.service",
        {"unit": "v.service", "user_unit": True},
    ),
    ("/user.slice/user-1000.slice/session-4.scope", {}),
    ("/user.slice/user-1000.slice/user@1000.service/tmux-spawn-1.scope", {}),
    ("/system.slice/docker-0a1b.scope", {"container": True}),
    ("/kubepods.slice/pod1/cri-containerd-2.scope", {"container": True}),
    ("/", {}),
    ("", {}),
]


@pytest.mark.parametrize(("group", "said"), GROUPS)
def test_the_control_group_tells_the_unit(group: str, said: dict[str, Any]) -> None:
    plain = {"unit": "", "user_unit": False, "container": False}
    assert processes.unit_of(group) == plain | said


KINDS = [
    ("python3 /opt/venv/bin/vllm serve M", "engine"),
    ("python3 -u -m vllm.entrypoints.openai.api_server --model M", "engine"),
    ("/v/bin/python3.12 -W ignore -mvllm.entrypoints.cli.main serve M", "engine"),
    ("python -m pdctl_simulator serve M", "engine"),
    ("/usr/local/bin/python /srv/disagg_proxy_server.py --port 1", "proxy"),
    ("python -m pdctl_proxy --config c", "proxy"),
    ("vllm-router --port 1", "proxy"),
    ("python3 /opt/venv/bin/lmcache server", "cache"),
    ("VLLM::EngineCore", ""),
    ("bash -c vllm serve M", ""),
    ("uv run vllm serve M", ""),
    ("tmux new-session -d vllm serve M", ""),
    ("python -c import vllm", ""),
    ("grep vllm serve", ""),
    ("tail -f vllm.log", ""),
    ("python train.py --model vllm", ""),
    ("", ""),
]


@pytest.mark.parametrize(("line", "kind"), KINDS)
def test_only_the_process_that_serves_counts_not_the_shell_or_launcher_around_it(
    line: str, kind: str
) -> None:
    assert processes.kind_of(line.split()) == kind


def test_a_worker_that_an_engine_forked_is_part_of_it(tmp_path: Path) -> None:
    program = tmp_path / "vllm"
    program.write_text("import os, sys\nos.fork()\nprint('up', flush=True)\nsys.stdin.read()\n")
    words = [sys.executable, str(program), "serve", "test/forked"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stdout.readline() and running.stdout.readline()
        heads = [(head.pid, family) for head, family in processes.families() if "test/forked" in head.argv]
    assert len(heads) == 1 and heads[0][0] == running.pid and len(heads[0][1]) == 2
    assert os.getpid() not in heads[0][1]
