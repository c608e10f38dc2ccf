"""How the program ends when it is interrupted, when nobody reads it, and when it has a bug."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pdctl.cli import main, spec
from tests.cli.program import DEADLINE_S, PDCTL, environment
from tests.examples import spec_path

SPEC = """\
cluster: chat
hosts: [{{name: h1, address: 127.0.0.1, gpus: 8}}]
ssh: {{user: nobody, port: {port}, config: ssh_config, known_hosts: known_hosts}}
stack: article-2025
model: {{id: openai/gpt-oss-120b}}
serving: {{prefillers: {{}}, decoders: {{}}}}
"""


@pytest.mark.parametrize("command", [["apply", "--yes"], ["status"]], ids=" ".join)
def test_ctrl_c_while_a_host_keeps_silent_ends_with_130_and_says_how_to_go_on(
    command: list[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(DEADLINE_S)
        # Nothing but the signal may end the wait before the test's own deadline.
        (tmp_path / "ssh_config").write_text("Host *\n  ConnectTimeout 600\n")
        (tmp_path / "cluster.yaml").write_text(SPEC.format(port=silent.getsockname()[1]))
        process = subprocess.Popen(
            [*PDCTL, *command], cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE, text=True
        )
        try:
            with silent.accept()[0]:  # it waits for the server's first line now
                process.send_signal(signal.SIGINT)
                said = process.communicate(timeout=DEADLINE_S)[1]
        finally:
            process.kill()
    assert process.returncode == 130
    assert said.endswith("interrupted; run the same command again to go on\n") and "Traceback" not in said


@pytest.mark.parametrize(
    "words",
    [
        ["schema"],
        ["--version"],
        ["--help"],
        ["validate", str(spec_path("lab"))],
        ["init", "x.yaml", "--json"],
    ],
    ids=lambda words: words[0],
)
def test_a_reader_that_leaves_early_gets_no_complaint(words: list[str], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*PDCTL, *words],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_S,
        )
    finally:
        os.close(writing)
    assert (done.stderr, done.returncode) == ("", 1)


def broken(path: Path) -> None:
    raise RuntimeError(f"no way to read {path}")


@pytest.fixture
def bug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A command with a bug in it; the answer is where its log goes."""
    monkeypatch.setattr(spec, "judge_spec", broken)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "pdctl" / "error.log"


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["pdctl", *words])
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_bug_is_one_line_that_names_the_log_with_the_rest(
    bug: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "validate") == 1
    said = capsys.readouterr()
    assert said.err == f"error: pdctl has a bug: RuntimeError; details are in {bug}\n" and said.out == ""
    assert "RuntimeError: no way to read cluster.yaml" in bug.read_text()
    assert bug.stat().st_mode & 0o777 == 0o600


def test_debug_shows_the_traceback_of_a_bug(
    bug: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--debug", "validate") == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback") and "RuntimeError: no way to read cluster.yaml" in said
    assert not bug.exists()


# A command that asks before it does anything, as apply, rollback, destroy and unlock do.
ASKS = """
import sys
from pdctl.cli import main
from pdctl.cli.ending import confirm

@main.app.command()
def ask_first() -> None:
    confirm("Apply this plan?", False)
    print("it was done")

sys.argv = ["pdctl", "ask-first"]
main.run()
"""


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ("\x03", 130, "interrupted; run the same command again to go on"),
        ("\x04", 1, "error: not confirmed; nothing was changed"),
        ("n\n", 1, "error: not confirmed; nothing was changed"),
    ],
    ids=["Ctrl-C", "Ctrl-D", "no"],
)
def test_a_question_that_is_not_agreed_to_ends_in_words(
    answer: str, code: int, said: str, tmp_path: Path
) -> None:
    operator, terminal = pty.openpty()
    try:
        process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", sys.executable, "-c", ASKS],
            env=environment(tmp_path),
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        shown = process.stderr.read(len("Apply this plan?"))
        os.write(operator, answer.encode())
        out, err = process.communicate(timeout=DEADLINE_S)
    finally:
        os.close(operator)
        os.close(terminal)
    assert (process.returncode, out.strip()) == (code, "")
    assert shown == "Apply this plan?" and err.splitlines()[-1] == said
    assert "Aborted" not in err


LATE = """\
import atexit, os, signal, sys
from pdctl.cli.main import run
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.argv = ["pdctl", "--version"]
run()
"""


def test_an_interruption_that_comes_when_all_is_done_changes_nothing() -> None:
    """While Python ends, it would be an exit by signal, or words of Python's own."""
    ran = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "") and ran.stdout.startswith("pdctl ")
