"""This process as the holder of a lock, and whether another holder is known to have ended."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import os
import platform
import secrets
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdctl.hosts.observation import LockOwner

MACHINE_ID = Path("/etc/machine-id")
BOOT = "/proc/sys/kernel/random/boot_id"
# The first pid namespace of a kernel: PROC_PID_INIT_INO in linux/include/linux/proc_ns.h.
OUTERMOST = "pid:[4026531836]"


def this_process() -> LockOwner:
    """A new token each time; the command line holds no secrets, since pdctl takes none."""
    return LockOwner(
        by=who(),
        command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        age_s=0.0,
        token=secrets.token_hex(16),
        machine=_machine(),
        boot=_text(BOOT),
        pid_namespace=_pid_namespace(),
        pid=os.getpid(),
        started=_started(os.getpid()) or 0,
    )


def who() -> str:
    return f"{getpass.getuser()}@{platform.node()}"


def owner_document(owner: LockOwner) -> dict[str, Any]:
    """What a host writes down; how old it is, only that host knows."""
    return {name: value for name, value in asdict(owner).items() if name != "age_s"}


def why_stale(owner: LockOwner) -> str:
    """Empty while the holder may still be at work: only its own machine can know that it is not.

    A machine id is no proof in containers, which may share one, and whose pids mean nothing outside.
    """
    if not owner.machine or owner.machine != _machine():
        return ""
    if owner.boot != _text(BOOT):
        outermost = owner.pid_namespace == _pid_namespace() == OUTERMOST
        return "this machine has been restarted since" if outermost else ""
    if owner.pid_namespace != _pid_namespace() or _lives(owner.pid, owner.started):
        return ""
    return f"its process {owner.pid} on this machine has ended"


def why_live(owner: LockOwner) -> str:
    """Its process, where that is known to run still: on this very machine. Else empty."""
    here = owner.machine and owner.machine == _machine() and owner.boot == _text(BOOT)
    if not here or owner.pid_namespace != _pid_namespace() or not _lives(owner.pid, owner.started):
        return ""
    words = _text(f"/proc/{owner.pid}/cmdline").rstrip("\0").split("\0")
    command = f": `{shlex.join(words)}`" if words != [""] else ""  # of others it may be hidden
    return f"its process {owner.pid} still runs on this machine{command}"


def _lives(pid: int, started: int) -> bool:
    """Processes of others may be hidden from view (hidepid, proc(5)), but not from a signal."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    now = _started(pid)
    return now is None or now == started


def _started(pid: int) -> int | None:
    """Clock ticks from the machine's start to the process's: field 22 of /proc/PID/stat, after its name."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])


def _machine() -> str:
    """A digest, since a machine's id is its own affair (machine-id(5))."""
    name = _text(str(MACHINE_ID))
    return hashlib.sha256(f"pdctl {name} {platform.node()}".encode()).hexdigest()[:32] if name else ""


def _pid_namespace() -> str:
    with contextlib.suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def _text(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text().strip()
    return ""
