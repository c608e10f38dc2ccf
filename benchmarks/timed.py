"""A command -> how long it took, and the CPU that it, the lab's hosts and the rest of the machine used."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Joins the control group, then becomes the command: what it starts and leaves behind is counted there too.
JOIN = 'echo 0 >"$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True)
class Meters:
    """The control groups that are read, all below the lab's own: taking the lab down ends them."""

    controller: Path
    hosts: tuple[Path, ...]


@dataclass(frozen=True)
class Timing:
    """One run to its end."""

    rc: int
    output: str
    wall_s: float
    controller_cpu_s: float
    hosts_cpu_s: float
    other_cpu_s: float


def timed(
    argv: Sequence[str], meters: Meters, cwd: Path, env: Mapping[str, str], log: Path, limit_s: float
) -> Timing:
    """Run `argv`, its output going to `log`; after `limit_s` it is killed and its status is 124."""
    before, start = _read(meters), time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["sh", "-c", JOIN, str(meters.controller), *argv],
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            rc = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            rc = 124
        finally:
            wall = time.monotonic() - start
            if process.poll() is None:
                (meters.controller / "cgroup.kill").write_text("1")
                process.wait()
    controller, hosts, busy = (b - a for a, b in zip(before, _read(meters), strict=True))
    other = max(0.0, busy - controller - hosts)
    return Timing(rc, log.read_text(errors="replace"), wall, controller, hosts, other)


def idle_rate(meters: Meters, seconds: float) -> float:
    """CPU seconds a second that the hosts use when nobody asks them anything."""
    before, start = _read(meters)[1], time.monotonic()
    time.sleep(seconds)
    return (_read(meters)[1] - before) / (time.monotonic() - start)


def _read(meters: Meters) -> tuple[float, float, float]:
    return _used(meters.controller), sum(map(_used, meters.hosts)), _busy()


def _used(group: Path) -> float:
    """CPU seconds of the group and all below it."""
    for line in (group / "cpu.stat").read_text().splitlines():
        name, value = line.split()
        if name == "usage_usec":
            return int(value) / 1e6
    raise ValueError(f"{group}/cpu.stat has no usage_usec")


def _busy() -> float:
    """CPU seconds of the whole machine since it started, without idling and waiting for the disk."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _iowait, irq, softirq, _steal = map(int, fields)
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
