"""Processes of a unit in /proc -> limits too low, a replaced program, a library twice, bytes read."""

from __future__ import annotations

import os
import re

from ansible.module_utils.pdctl_rows import Row

GONE = " (deleted)"  # what the kernel adds to a path that is no more: proc(5), /proc/pid/exe
MEMORY = "/memfd:"  # a program that never was a file: memfd_create(2)
UNLIMITED = "unlimited"
LIMIT = re.compile(r"^(Max .+?) {2,}(\S+) ", re.MULTILINE)  # the soft one: the one that counts (proc(5))
READ = re.compile(r"^(?:rchar|read_bytes): (\d+)$", re.MULTILINE)


def short_limits(row: Row, pid: int) -> list[str]:
    """Of `limits`, {name in /proc/PID/limits: the least}, those that the process falls short of, in words."""
    least = [tuple(pair) for pair in row.get("limits") or ()]
    has = dict(LIMIT.findall(_text(pid, "limits"))) if least and pid else {}
    return [
        f"{name} is {has[name]}, it needs {wanted}"
        for name, wanted in least
        if name in has and _amount(has[name]) < _amount(wanted)
    ]


def replaced_program(pid: int) -> list[str]:
    """That it still runs a program which another has taken the place of, as after an upgrade of Python: what
    it loads from now on is of another version than itself."""
    try:
        program = os.readlink(f"/proc/{pid}/exe")
    except OSError:  # it has ended, or is another user's and this is not root
        return []
    if not program.endswith(GONE) or program.startswith(MEMORY):
        return []
    return [f"runs with a replaced {program[: -len(GONE)]}: restart pending"]


def bytes_read(pids: list[int]) -> int:
    """From files by calls, or from disks below mapped files, whichever is more; of all processes together."""
    return sum(max(map(int, READ.findall(_text(pid, "io"))), default=0) for pid in pids)


def loaded_twice(pids: list[int], name: str) -> list[str]:
    """The files of library `name` in the first process that has more than one of them loaded."""
    for pid in pids:
        rows = [line.split(None, 5) for line in _text(pid, "maps").splitlines() if name in line]
        paths = {row[5] for row in rows if len(row) == 6}
        found = sorted(path for path in paths if os.path.basename(path).startswith((name + ".", name + "-")))
        if len(found) > 1:
            return found
    return []


def _amount(word: str) -> float:
    return float("inf") if word == UNLIMITED else float(word)


def _text(pid: int, name: str) -> str:
    """Empty when the process has just ended."""
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""
