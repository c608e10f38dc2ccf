"""Locks of apt and dpkg on this host -> waited for, or who holds which, when they are not let go in time."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterable
from typing import NamedTuple

from ansible.module_utils.pdctl_audience import stay_for_audience
from ansible.module_utils.pdctl_difference import Problem

# dpkg(1) and apt take them in this order; apt's DPkg::Lock::Timeout is of the first two alone (apt 2.6.1
# reports the lists' lock at once, whatever the timeout).
LOCKS = (
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/lib/apt/lists/lock",
    "/var/cache/apt/archives/lock",
)
PAUSE_S = 0.5
FLOCK = "hhqqi"  # struct flock of x86-64 Linux: type, whence, start, length, pid
SHOWN = 160  # characters of a command


class Held(NamedTuple):
    """A lock and its holder; pid 0 is a process that cannot be seen from here, as one of a container."""

    path: str
    pid: int
    command: str

    def __str__(self) -> str:
        who = f"process {self.pid} ({self.command})" if self.pid else "a process that is not seen from here"
        return f"{self.path} by {who}"


def wait_for_locks(limit_s: float, paths: Iterable[str] = LOCKS) -> None:
    """Only looks: to take a lock, even for a moment, would make its next rightful taker fail."""
    paths = tuple(paths)
    deadline = time.monotonic() + limit_s
    while True:
        held = next((found for found in map(holder, paths) if found), None)
        if held is None:
            return
        if time.monotonic() >= deadline:
            raise Problem(refusal(held, limit_s))
        stay_for_audience()
        time.sleep(min(PAUSE_S, max(deadline - time.monotonic(), 0.01)))


def refusal(held: Held, limit_s: float) -> str:
    return (
        f"apt cannot work: after {limit_s:g} s {held.path} is still held by"
        f" {str(held).partition(' by ')[2]}. Nothing was installed, and neither the lock nor its holder was"
        " touched. Wait until it has ended, or look at why it hangs; the spec's `apt.lock_timeout_s` says how"
        " long to wait"
    )


def holder(path: str) -> Held | None:
    """Who would keep this process from taking it (fcntl(2), F_GETLK): no one, or the first."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    if kind == fcntl.F_UNLCK:
        return None
    return Held(path, max(pid, 0), command_of(pid))


def command_of(pid: int) -> str:
    """As it was called; a thread of the kernel or one that has just ended has only a name, or nothing."""
    for name in ("cmdline", "comm"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as handle:
                words = handle.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            return "it has just ended"
        if words:
            return words if len(words) <= SHOWN else words[:SHOWN] + "..."
    return "no name"
