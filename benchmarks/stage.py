"""A lab, and everything that stays the same while rows are timed on it, one after the other."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.figures import Sample
from benchmarks.rows import Row, Workplace, environment
from benchmarks.timed import Meters, Timing, idle_rate, timed
from pdctl.lab import Bind, Lab
from pdctl.lab.cgroup import lab_group

IDLE_S = 5.0
SETTLE_S = 2.0  # between two runs: Ansible's workers and sshd's children end, nobody inherits their work


@dataclass(frozen=True)
class Stage:
    """Hosts that are up, and how commands are run beside them."""

    lab: Lab
    place: Workplace
    meters: Meters
    env: Mapping[str, str]
    deadline: float  # on time.monotonic(): later runs are killed

    def grown(self, hosts: int, binds: Sequence[Bind] = ()) -> Stage:
        """The same with more hosts."""
        place, meters = _hosts(self.lab, hosts, self.place.folder, binds)
        return replace(self, place=place, meters=meters)

    def prepare(self, row: Row) -> None:
        """Run it, and end the benchmark if it fails."""
        timing = self._run(row, "prepare")
        say(f"{row.name}: {timing.wall_s:.1f} s")
        if problem := self._problem(row, timing):
            sys.exit(f"{row.name} failed ({problem}):\n{_tail(timing.output)}")

    def sample(self, row: Row, number: int) -> Sample:
        """Run it, time it, and look whether it did what it should have done."""
        time.sleep(SETTLE_S)
        timing = self._run(row, "run")
        problem = self._problem(row, timing)
        say(f"round {number}, {row.name}: {timing.wall_s:.2f} s" + (f", {problem}" if problem else ""))
        if problem:
            say(_tail(timing.output))
        cpu = (timing.controller_cpu_s, timing.hosts_cpu_s, timing.other_cpu_s)
        return Sample(row.name, number, timing.wall_s, *cpu, problem)

    def idle(self) -> float:
        time.sleep(SETTLE_S)
        return idle_rate(self.meters, IDLE_S)

    def _run(self, row: Row, log: str) -> Timing:
        argv = [*self.lab.inside_argv([]), *row.argv]
        left = max(1.0, self.deadline - time.monotonic())
        env = {**self.env, **row.env}
        return timed(argv, self.meters, row.cwd, env, self.place.folder / f"{log}.log", left)

    def _problem(self, row: Row, timing: Timing) -> str | None:
        if timing.rc:
            return f"exit status {timing.rc}"
        return row.problem(timing.output) or next(self._wrong(row), None)

    def _wrong(self, row: Row) -> Iterator[str]:
        """What is not on a host as the row's evidence has it."""
        if not row.evidence:
            return
        command, expected = row.evidence
        for host in self.place.hosts:
            found = set(self.lab.exec(host, ["sh", "-c", command]).stdout.split("\n")) - {""}
            if found != {expected}:
                yield f"{host} shows {sorted(found)}, not {expected}"


@contextmanager
def stage(hosts: int, folder: Path, limit_s: float, binds: Sequence[Bind] = ()) -> Iterator[Stage]:
    """Boots the hosts; the lab and all that ran in it are gone at the end."""
    deadline = time.monotonic() + limit_s
    # ssh's control sockets need a short path; whoever waits behind them ends with the lab's control group.
    with Lab(folder / "lab", report=say) as lab, tempfile.TemporaryDirectory(prefix="pb-") as sockets:
        place, meters = _hosts(lab, hosts, folder, binds)
        meters.controller.mkdir()
        yield Stage(lab, place, meters, environment(folder, Path(sockets)), deadline)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _hosts(lab: Lab, count: int, folder: Path, binds: Sequence[Bind] = ()) -> tuple[Workplace, Meters]:
    say(f"booting {count} hosts")
    status = lab.up(count, "h", binds)
    place = Workplace(folder, {host.name: host.address for host in status.hosts})
    group = lab_group(lab.paths.lab_id)
    return place, Meters(group / "controller", tuple(group / name for name in place.hosts))


def _tail(output: str) -> str:
    return "\n".join(f"    {line}" for line in output.splitlines()[-25:])
