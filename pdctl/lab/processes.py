"""Run a tool to its end, or start a process that outlives us and recognise it later."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pdctl.errors import LabError

# Joins the cgroup, leaves the real work behind and names it; the caller's Ctrl-C does not reach it.
LAUNCH = 'echo 0 >"$0/cgroup.procs" || exit 1; log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'


@dataclass(frozen=True)
class Process:
    """A process we started; the start time tells it from a later one with the same number."""

    pid: int
    started: int


def run(*argv: str | Path, stdin: str | None = None, hint: str | None = None) -> str:
    """The standard output of `argv`; raises with what it wrote to stderr."""
    words = [str(word) for word in argv]
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip()[-2000:] or f"exit status {done.returncode}"
        raise LabError(f"`{shlex.join(words)[:200]}` failed: {said}", hint=hint)
    return done.stdout


def launch(group: Path, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Process:
    """Start `argv` inside the cgroup `group`, writing to `log`, as nobody's child."""
    done = subprocess.run(
        ["sh", "-c", LAUNCH, str(group), str(log), *argv],
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd="/",
        check=False,
    )
    started = _start_time(int(done.stdout)) if done.stdout.strip() else None
    if started is None:
        raise LabError(f"`{argv[0]}` ended at once: {tail(log)}")
    return Process(int(done.stdout), started)


def alive(process: Process | None) -> bool:
    return process is not None and _start_time(process.pid) == process.started


def tail(log: Path, lines: int = 5) -> str:
    """The last lines of a log, for an error message."""
    if not log.exists():
        return "(no log)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat, in clock ticks since boot; none for a dead or a zombie process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])
