"""A spec that comes through a pipe is read once, in time, and not without end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pdctl.cli.load import judge_spec, text_of
from pdctl.cli.reading import inspected, spec_bytes
from pdctl.errors import SpecError
from pdctl.spec.load import contents
from pdctl.spec.source import MAX_BYTES
from tests.spec.breaking import sound_but_for


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def written(pipe: Path, *parts: bytes) -> threading.Thread:
    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            for part in parts:
                file.write(part)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


def test_what_comes_through_a_pipe_counts_for_everyone_who_asks(pipe: Path) -> None:
    text = sound_but_for("")
    thread = written(pipe, text[:20].encode(), text[20:].encode())
    assert judge_spec(pipe).topology is not None
    thread.join(10)
    assert inspected(pipe).cluster is not None and text_of(pipe) == text


def test_a_pipe_that_nobody_writes_to_is_refused_in_time(pipe: Path) -> None:
    with pytest.raises(SpecError, match=r"is a pipe whose writer has not ended within 0\.05 s"):
        spec_bytes(pipe, 0.05)
    keep = os.open(pipe, os.O_RDWR)
    os.write(keep, b"cluster: chat\n")
    with pytest.raises(SpecError, match="has not ended"):
        spec_bytes(pipe, 0.05)
    os.close(keep)


def test_a_pipe_that_never_ends_is_read_up_to_the_cap() -> None:
    assert len(spec_bytes(Path("/dev/zero"))) == MAX_BYTES + 1
    assert [found.rule for found in inspected(Path("/dev/zero")).found] == ["SYNTAX004"]


def test_who_reads_files_only_never_waits_for_a_pipe(pipe: Path) -> None:
    with pytest.raises(SpecError, match="is a pipe or a device"):
        contents(pipe)


def test_process_substitution_works(tmp_path: Path) -> None:
    (tmp_path / "spec").write_text(sound_but_for(""))
    script = f"{sys.executable} -m pdctl validate <(cat spec)"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "is valid: 2 instances" in done.stdout
