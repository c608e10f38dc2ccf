"""10, 100 and 1,000 hosts with 4 engines each -> what `pdctl validate` takes of one core, and of memory.

Each run is a process of its own, from its start to its end: the file is read, every rule is asked, the system
is resolved with all ports, memory and networks judged, and the answer printed. On a core that others use too
only the CPU time says anything.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SIZES = (10, 100, 1000)
LIMIT_S, LIMIT_MB = 3.0, 400.0  # at the largest size, for every case
HOST = (
    "  - {{name: gpu{n:04}, address: 10.{high}.{low}.1, labels: {{rack: r{rack}}},"
    " gpus: {{count: 8, model: H100-SXM-80GB}}, network: {{gbit: 400, kind: ib}}}}"
)
PLACE = "{{host: gpu{n:04}, gpus: [{gpus}], ports: {{http: {http}, side_channel: [{side}]}}}}"


@dataclass(frozen=True)
class Cost:
    """The least of some runs of one case at one size."""

    case: str
    hosts: int
    cpu_s: float
    wall_s: float
    peak_mb: float

    @property
    def met(self) -> bool:
        return self.cpu_s < LIMIT_S and self.peak_mb < LIMIT_MB


def counted(hosts: int) -> str:
    """Counts alone: pdctl places every engine."""
    pools = f"{{count: {2 * hosts}, tensor_parallel: 2}}"
    return _spec(hosts, f"  connector: lmcache\n  prefillers: {pools}\n  decoders: {pools}\n")


def placed(hosts: int) -> str:
    """Every engine placed, its GPUs and ports pinned."""
    pools = "\n".join(
        f"  {role}:\n    tensor_parallel: 2\n    placement:\n" + "\n".join(_places(hosts, k))
        for k, role in enumerate(("prefillers", "decoders"))
    )
    return _spec(hosts, f"  connector: nixl\n{pools}\n")


def wrong(hosts: int) -> str:
    """The same with one port for all: an error for every pair of engines that meet."""
    return placed(hosts).replace("7101", "7100").replace("7201", "7100").replace("7200", "7100")


CASES: dict[str, tuple[Callable[[int], str], Sequence[str]]] = {
    "counted": (counted, ()),
    "counted, --json": (counted, ("--json",)),
    "placed and pinned": (placed, ()),
    "one port for all": (wrong, ()),
}


def measure(sizes: Sequence[int], rounds: int) -> list[Cost]:
    found = []
    with tempfile.TemporaryDirectory(prefix="pdctl-scale-") as folder:
        spec = Path(folder) / "cluster.yaml"
        for hosts in sizes:
            for name, (text, words) in CASES.items():
                spec.write_text(text(hosts))
                runs = [_run(spec, words) for _ in range(rounds)]
                cpu, wall, peak = (min(column) for column in zip(*runs, strict=True))
                found.append(Cost(name, hosts, cpu, wall, peak))
    return found


def report(costs: Sequence[Cost]) -> str:
    """A Markdown table, and whether the targets were met at the largest size."""
    table = [
        "| hosts | engines | case | CPU s | wall s | peak MB |",
        "| ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    table += [
        f"| {cost.hosts} | {4 * cost.hosts} | {cost.case} | {cost.cpu_s:.2f} | {cost.wall_s:.2f} |"
        f" {cost.peak_mb:.0f} |"
        for cost in costs
    ]
    largest = max(cost.hosts for cost in costs)
    missed = [cost.case for cost in costs if cost.hosts == largest and not cost.met]
    verdict = f"MISSED by: {', '.join(missed)}" if missed else "met by every case"
    return "\n".join(
        [*table, "", f"Target at {largest} hosts, < {LIMIT_S:g} s and < {LIMIT_MB:g} MB: {verdict}"]
    )


def _spec(hosts: int, serving: str) -> str:
    rows = "\n".join(HOST.format(n=n, high=n >> 8, low=n & 255, rack=n // 16) for n in range(hosts))
    return (
        f"cluster: chat\nhosts:\n{rows}\nstack: article-2025\nmodel: {{id: openai/gpt-oss-120b}}\n"
        f"serving:\n{serving}"
    )


def _places(hosts: int, role: int) -> list[str]:
    """Two engines of a role on each host, four GPUs for the two."""
    return [
        "      - "
        + PLACE.format(
            n=n,
            gpus=f"{4 * role + 2 * k}, {4 * role + 2 * k + 1}",
            http=7100 + 100 * role + k,
            side=f"{5600 + 4 * role + 2 * k}, {5601 + 4 * role + 2 * k}",
        )
        for n in range(hosts)
        for k in range(2)
    ]


def _run(spec: Path, words: Sequence[str]) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and MB of one `pdctl validate`, on one core."""
    argv = [sys.executable, str(Path(sys.executable).with_name("pdctl")), "validate", str(spec), *words]
    start = time.perf_counter()
    process = subprocess.Popen(
        argv,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, nargs="+", default=SIZES, help="numbers of hosts")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; the least counts (default 3)")
    options = parser.parse_args()
    print(report(measure(options.hosts, options.rounds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
