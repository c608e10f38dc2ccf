"""`pdctl lock` from outside: what it prints, how it ends, and what it leaves when it is interrupted."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pdctl.bundle.locking import write_lock
from pdctl.bundle.uv import uv_program
from tests.desired.test_locking import SIMULATOR, STACK, lock_for, with_proxy
from tests.spec.breaking import sound_but_for

HERE = Path(__file__).parents[2]


def pdctl(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pdctl", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HERE), **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cluster.yaml").write_text(sound_but_for(STACK))
    write_lock(with_proxy(lock_for(STACK)), tmp_path / "cluster.lock")
    return tmp_path


def test_check_tells_a_current_lock_from_a_stale_and_a_missing_one(folder: Path) -> None:
    assert pdctl(folder, "lock", "--check").stdout == "cluster.lock is current\n"
    (folder / "cluster.yaml").write_text(sound_but_for('stack: {base: cuda13-2026, nixl: "1.5.0"}\n'))
    done = pdctl(folder, "lock", "--check", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 2
    assert document["moved"] == [{"name": "nixl", "then": "1.5.1", "now": "1.5.0"}]
    (folder / "cluster.lock").unlink()
    done = pdctl(folder, "lock", "--check")
    assert done.returncode == 2 and "there is no cluster.lock" in done.stdout


def test_a_stale_lock_stops_validate_and_diff_before_any_host_is_asked(folder: Path) -> None:
    (folder / "cluster.yaml").write_text(sound_but_for('stack: {base: cuda13-2026, nixl: "1.5.0"}\n'))
    for command in ("validate", "diff", "apply", "render"):
        done = pdctl(folder, command)
        assert done.returncode == 1
        assert "cluster.lock:7:1: the lock was made from something else: nixl: 1.5.1 -> 1.5.0" in done.stderr
    assert pdctl(folder, "validate", "--format", "github").stdout.startswith(
        "::error file=cluster.lock,line=7"
    )


@pytest.mark.parametrize("words", [("validate",), ("lock", "--check")])
def test_a_lock_is_checked_alone(folder: Path, words: tuple[str, ...]) -> None:
    (folder / "cluster.yaml").unlink()
    done = pdctl(folder, *words, "cluster.lock")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "cluster.lock is a whole lock of cluster `chat`: 4 wheels of engine-cuda 3.12"
    )
    assert "`pdctl lock --check cluster.yaml`" in done.stdout
    document = json.loads(pdctl(folder, *words, "cluster.lock", "--json").stdout)
    assert document["whole"] and document["source"]["nixl"] == "1.5.1"
    lines = (folder / "cluster.lock").read_text().splitlines(keepends=True)
    (folder / "cluster.lock").write_text("".join(line for line in lines if not line.startswith("vllm==")))
    done = pdctl(folder, *words, "cluster.lock")
    assert done.returncode == 1 and "[LOCK001]" in done.stderr and "was written with" in done.stderr


def test_a_whole_lock_has_no_findings_for_machines_and_a_damaged_one_has(folder: Path) -> None:
    def results() -> list[object]:
        found: list[object] = json.loads(
            pdctl(folder, "validate", "cluster.lock", "--format", "sarif").stdout
        )["runs"][0]["results"]
        return found

    assert results() == []
    (folder / "cluster.lock").write_text("pdctl-lock/1 sha256:00\n")
    assert len(results()) == 1


@pytest.mark.parametrize("command", ["diff", "apply", "render", "lock"])
def test_a_lock_is_no_spec_for_other_commands(folder: Path, command: str) -> None:
    done = pdctl(folder, command, "cluster.lock")
    assert done.returncode == 1, done.stdout
    assert "is a lock, not a spec [SYNTAX015]" in done.stderr and "Traceback" not in done.stderr


def test_an_interrupted_lock_leaves_the_old_one(tmp_path: Path) -> None:
    uv_program(print)
    (tmp_path / "cluster.yaml").write_text(sound_but_for(SIMULATOR))
    write_lock(with_proxy(lock_for(SIMULATOR)), tmp_path / "cluster.lock")
    before = (tmp_path / "cluster.lock").read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
        env |= {"PIP_INDEX_URL": index, "UV_NO_CACHE": "1", "PYTHONPATH": str(HERE)}
        run = subprocess.Popen(
            [sys.executable, "-m", "pdctl", "lock"], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True
        )
        silent.settimeout(60)
        connection, _ = silent.accept()
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=30)[1]
        connection.close()
    assert run.returncode == 130 and "interrupted" in said
    assert (tmp_path / "cluster.lock").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cluster.lock", "cluster.yaml"]


def test_explain_tells_the_shipped_stacks(tmp_path: Path) -> None:
    assert "article-2025" in pdctl(tmp_path, "explain", "stack").stdout
    document = json.loads(pdctl(tmp_path, "explain", "cuda13-2026", "--json").stdout)
    pairs = {tuple(row["pair"]): row["status"] for row in document["pairs"]}
    assert pairs["vllm", "lmcache"] == "proven" and document["pins"]["vllm"] == "0.32.0"


def test_a_spec_that_would_be_its_own_lock_is_refused_and_left_alone(folder: Path) -> None:
    text = (folder / "cluster.yaml").read_text()
    (folder / "spec.lock").write_text(text)
    done = pdctl(folder, "lock", "spec.lock")
    assert done.returncode == 1 and "is named as its own lock" in done.stderr and "hint: " in done.stderr
    assert (folder / "spec.lock").read_text() == text


def test_a_lock_that_is_no_file_is_refused_and_not_waited_for(folder: Path) -> None:
    (folder / "cluster.lock").unlink()
    os.mkfifo(folder / "cluster.lock")
    done = pdctl(folder, "lock", "--check")
    assert done.returncode == 1 and "is no file" in done.stderr and "Traceback" not in done.stderr
