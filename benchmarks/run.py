"""The conventional playbook, our rendered project and pdctl on the same virtual hosts -> a table of times.

Run as root: `make bench`. It makes a lab, times every kind of run in turn, and takes the lab down.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import validate
from benchmarks.figures import Sample, document, ratio_table, ratios, sample_table
from benchmarks.repository import make_repository
from benchmarks.rows import (
    BENCHMARKS,
    TARGETS,
    Row,
    Workplace,
    compared,
    environment,
    preparations,
    write_files,
)
from benchmarks.timed import Meters, Timing, idle_rate, timed
from pdctl.errors import PdctlError
from pdctl.lab import Lab
from pdctl.lab.cgroup import lab_group

IDLE_S = 5.0
STARTS = 15  # of `pdctl validate` and of each of its peers
SETTLE_S = 2.0  # between two runs: Ansible's workers and sshd's children end, nobody inherits their work


@dataclass(frozen=True)
class Bench:
    """What stays the same over all runs."""

    meters: Meters
    env: Mapping[str, str]
    inside: tuple[str, ...]  # words that put a command into the lab's network
    logs: Path
    deadline: float  # on time.monotonic(): later runs are killed

    def run(self, row: Row, log: str) -> Timing:
        argv = [*self.inside, *row.argv]
        left = max(1.0, self.deadline - time.monotonic())
        return timed(argv, self.meters, row.cwd, self.env, self.logs / f"{log}.log", left)


def main() -> int:
    options = _options()
    if os.geteuid() != 0:
        sys.exit("virtual hosts need root: run `make bench`, or this with sudo")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    subprocess.run([BENCHMARKS.parent / "tools/apt", "apt-utils", "gnupg"], check=True)
    with tempfile.TemporaryDirectory(prefix="pdctl-bench-", dir=options.dir) as folder:
        try:
            samples, idle = _measured(Path(folder), options)
        except PdctlError as error:
            sys.exit(f"error: {error}" + (f"\n  hint: {error.hint}" if error.hint else ""))
        except KeyboardInterrupt:
            _say("interrupted; the lab is gone")
            return 130
    _say("starting `pdctl validate` and its peer in turn")
    starts = validate.measure(STARTS)
    found = ratios(samples, TARGETS, idle)
    machine = _machine(options.hosts)
    result = document(samples, found, idle, machine) | {"validate": validate.document(starts)}
    _write(options.out, result)
    tables = (machine["summary"], sample_table(samples, idle), ratio_table(found), validate.report(starts))
    print("\n\n".join(tables))
    failed = [s for s in samples if s.problem]
    for sample in failed:
        print(f"round {sample.round}, {sample.row}: {sample.problem}", file=sys.stderr)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind (default 3)")
    parser.add_argument("--hosts", type=int, default=8, help="virtual hosts (default 8)")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for all runs (default 1800)")
    parser.add_argument("--dir", type=Path, help="where to make the temporary folder of the lab")
    parser.add_argument("--out", type=Path, default=BENCHMARKS / "results", help="folder for the JSON")
    return parser.parse_args()


def _measured(folder: Path, options: argparse.Namespace) -> tuple[list[Sample], float]:
    """Samples of all rounds, and the hosts' idle CPU."""
    deadline = time.monotonic() + options.limit
    key = make_repository(folder / "repository")
    # ssh's control sockets need a short path; whoever waits behind them ends with the lab's control group.
    with Lab(folder / "lab", report=_say) as lab, tempfile.TemporaryDirectory(prefix="pb-") as sockets:
        _say(f"booting {options.hosts} hosts")
        status = lab.up(options.hosts)
        lab.serve(folder / "repository")
        place = Workplace(folder, {host.name: host.address for host in status.hosts})
        write_files(place, lab.ssh_config, key)
        group = lab_group(lab.paths.lab_id)
        meters = Meters(group / "controller", tuple(group / name for name in place.hosts))
        meters.controller.mkdir()
        env = environment(folder, Path(sockets))
        bench = Bench(meters, env, tuple(lab.inside_argv([])), folder, deadline)
        for row in preparations(place):
            _prepare(bench, row)
        time.sleep(SETTLE_S)
        idle = idle_rate(meters, IDLE_S)
        return [_sample(bench, row, n) for n in range(1, options.rounds + 1) for row in compared(place)], idle


def _prepare(bench: Bench, row: Row) -> None:
    timing = bench.run(row, "prepare")
    _say(f"{row.name}: {timing.wall_s:.1f} s")
    if timing.rc:
        sys.exit(f"{row.name} failed (exit status {timing.rc}):\n{_tail(timing.output)}")


def _sample(bench: Bench, row: Row, number: int) -> Sample:
    time.sleep(SETTLE_S)
    timing = bench.run(row, "run")
    problem = f"exit status {timing.rc}" if timing.rc else row.problem(timing.output)
    _say(f"round {number}, {row.name}: {timing.wall_s:.2f} s" + (f", {problem}" if problem else ""))
    if problem:
        _say(_tail(timing.output))
    cpu = (timing.controller_cpu_s, timing.hosts_cpu_s, timing.other_cpu_s)
    return Sample(row.name, number, timing.wall_s, *cpu, problem)


def _tail(output: str) -> str:
    return "\n".join(f"    {line}" for line in output.splitlines()[-25:])


def _machine(hosts: int) -> dict[str, Any]:
    cores = os.cpu_count()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**30
    versions = {name: version(name) for name in ("pdctl", "ansible-core", "paramiko")}
    shown = ", ".join(f"{name} {number}" for name, number in versions.items())
    return {
        "cores": cores,
        "memory_gib": memory,
        "kernel": platform.release(),
        "hosts": hosts,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": os.getloadavg(),
        "versions": versions | {"python": platform.python_version()},
        "summary": f"{hosts} virtual hosts and the controller share {cores} cores and {memory} GiB; {shown}",
    }


def _write(folder: Path, result: dict[str, Any]) -> None:
    """As the owner of the checkout, who can then remove it."""
    folder.mkdir(exist_ok=True)
    file = folder / f"speed-{result['machine']['at'].replace(':', '')}.json"
    file.write_text(json.dumps(result, indent=1) + "\n")
    owner = folder.parent.stat()
    for path in (folder, file):
        os.chown(path, owner.st_uid, owner.st_gid)
    _say(f"wrote {file}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
