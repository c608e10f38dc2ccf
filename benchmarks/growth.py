"""8, 16, 32 virtual hosts -> how the time of diff and apply grows; needs root.

Hosts and controller share the cores of the machine, so CPU of both sides is held to the line too: for twice
the hosts at most twice the time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from benchmarks.figures import Sample, hosts_cpu, spread
from benchmarks.machine import machine, write
from benchmarks.rows import (
    AFTER,
    APPLY_ONLY,
    BEFORE,
    BENCHMARKS,
    DIFF,
    LINE,
    changed_pdctl,
    first_apply,
    idle_pdctl,
    tool,
    write_specs,
)
from benchmarks.stage import Stage, say, stage
from pdctl.bundle.collect import default_folder
from pdctl.errors import PdctlError
from pdctl.lab import Bind

SIZES = (8, 16, 32)
ROWS = (DIFF, APPLY_ONLY, APPLY_ONLY + LINE)
NOISE = 1.1  # two medians of the same thing differ by this much


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind (default 3)")
    parser.add_argument("--hosts", type=int, nargs="+", default=SIZES, help="numbers of hosts, rising")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for all runs (default 1800)")
    parser.add_argument("--out", type=Path, default=BENCHMARKS / "results", help="folder for the JSON")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("virtual hosts need root: run this with sudo")
    # Hosts see the bundle of this machine: copying it to each of them would be most of the first apply.
    subprocess.run([tool("pdctl"), "bundle", "simulator", "proxy"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="pdctl-bench-") as folder:
        try:
            samples, idle = _measured(Path(folder), options.hosts, options.rounds, options.limit)
        except PdctlError as error:
            sys.exit(f"error: {error}" + (f"\n  hint: {error.hint}" if error.hint else ""))
        except KeyboardInterrupt:
            say("interrupted; the lab is gone")
            return 130
    about = machine(max(options.hosts))
    rows = [{"hosts": n, "idle": idle[n]} | asdict(s) for n, some in samples.items() for s in some]
    write(options.out, "growth", {"format": "pdctl-growth/1", "machine": about, "samples": rows})
    print("\n\n".join((about["summary"], growth_table(samples, idle))))
    return 1 if any(s.problem for some in samples.values() for s in some) else 0


def growth_table(samples: Mapping[int, Sequence[Sample]], idle: Mapping[int, float]) -> str:
    """A Markdown table: each row at each size, and how it grew since the size before."""
    lines = [
        "| run | hosts | wall s | CPU s, both sides | hosts grew by | wall grew by | CPU grew by | |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in ROWS:
        before: tuple[int, float, float] | None = None
        for hosts, some in samples.items():
            good = [s for s in some if s.row == row and s.problem is None]
            if not good:
                lines.append(f"| {row} | {hosts} | failed | | | | | |")
                continue
            walls = [s.wall_s for s in good]
            cpus = [s.controller_cpu_s + hosts_cpu(s, idle[hosts]) for s in good]
            now = (hosts, median(walls), median(cpus))
            lines.append(f"| {row} | {hosts} | {spread(walls)} | {spread(cpus)} | {_grown(before, now)} |")
            before = now
    return "\n".join(lines)


def _grown(before: tuple[int, float, float] | None, now: tuple[int, float, float]) -> str:
    if before is None:
        return "| | | "
    hosts, wall, cpu = (b / a for a, b in zip(before, now, strict=True))
    verdict = "at most linear" if max(wall, cpu) <= hosts * NOISE else "MORE THAN LINEAR"
    return f"{hosts:.1f} | {wall:.2f} | {cpu:.2f} | {verdict}"


def _measured(
    folder: Path, sizes: Sequence[int], rounds: int, limit_s: float
) -> tuple[dict[int, list[Sample]], dict[int, float]]:
    """Samples and the hosts' idle CPU, by number of hosts."""
    samples: dict[int, list[Sample]] = {}
    idle: dict[int, float] = {}
    binds = [Bind(str(default_folder()), "/opt/pdctl/bundle")]
    with stage(sizes[0], folder, limit_s, binds) as on:
        for size in sizes:
            on = on.grown(size, binds)
            idle[size], samples[size] = _at(on, rounds)
    return samples, idle


def _at(on: Stage, rounds: int) -> tuple[float, list[Sample]]:
    write_specs(on.place, on.lab.ssh_config)
    for row in first_apply(on.place)[1:]:
        on.prepare(row)
    idle = on.idle()
    found = [on.sample(row, number) for number in range(1, rounds + 1) for row in idle_pdctl(on.place)]
    for number in range(1, rounds + 1):
        found.append(on.sample(changed_pdctl(on.place, (BEFORE, AFTER)[number % 2]), number))
    if rounds % 2:
        on.prepare(replace(changed_pdctl(on.place, BEFORE), name="change it back"))
    return idle, found


if __name__ == "__main__":
    sys.exit(main())
