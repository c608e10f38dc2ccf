"""10, 100 and 1,000 simulated hosts -> how long a plan takes on one core, and how much memory.

Every case runs in a process of its own, which does what `pdctl diff --json` does with the answers of hosts:
it reads the spec, resolves it, renders what is wanted, reads the answers, plans, accounts for the plan (why,
how long, whom it touches) and makes the document. It does not wait and runs no threads: on an idle core wall
time is CPU time, and on one that others use too only the CPU time says anything.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.simulated import CASES, lines, write_case

ROOT = Path(__file__).parents[1]
SIZES = (10, 100, 1000)
# At the largest size, for every case.
LIMIT_S, LIMIT_MB = 5.0, 500.0
PHASES = ("start", "import", "load and resolve", "desire", "answers", "plan", "account", "document")


@dataclass(frozen=True)
class Cost:
    """One case at one size, measured from the start of the process that planned it."""

    case: str
    hosts: int
    seconds: Mapping[str, float]  # of CPU, by phase
    wall_s: float
    peak_mb: float
    changes: int
    restarts: int

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    @property
    def met(self) -> bool:
        return self.total < LIMIT_S and self.peak_mb < LIMIT_MB


def measure(sizes: Sequence[int], cases: Sequence[str]) -> list[Cost]:
    """Each case at each size, one after the other."""
    found = []
    for hosts in sizes:
        for case in cases:
            with tempfile.TemporaryDirectory(prefix="pdctl-scale-") as folder:
                _run("prepare", case, str(hosts), folder)
                found.append(Cost(case, hosts, **json.loads(_run("plan", case, str(hosts), folder))))
    return found


def report(costs: Sequence[Cost]) -> str:
    """A Markdown table, and whether the targets were met at the largest size."""
    heads = ["hosts", "case", *PHASES, "CPU s", "wall s", "peak MB", "changes", "restarts"]
    table = [f"| {' | '.join(heads)} |", f"| ---: | --- |{' ---: |' * (len(heads) - 2)}"]
    for cost in costs:
        numbers = [
            *(f"{cost.seconds[name]:.2f}" for name in PHASES),
            f"{cost.total:.2f}",
            f"{cost.wall_s:.2f}",
        ]
        counts = [f"{cost.peak_mb:.0f}", str(cost.changes), str(cost.restarts)]
        table.append(f"| {' | '.join([str(cost.hosts), cost.case, *numbers, *counts])} |")
    largest = max(cost.hosts for cost in costs)
    missed = [cost.case for cost in costs if cost.hosts == largest and not cost.met]
    verdict = f"MISSED by: {', '.join(missed)}" if missed else "met by every case"
    target = f"Target at {largest} hosts, < {LIMIT_S:g} s and < {LIMIT_MB:g} MB: {verdict}"
    return "\n".join([*table, "", target])


def plan(folder: Path) -> dict[str, Any]:
    """What is measured: from the spec and the answers to the plan's document."""
    seconds: dict[str, float] = {"start": time.process_time()}
    began = time.perf_counter()
    with _lap(seconds, "import"):
        from pdctl.apply.account import account
        from pdctl.apply.look import judge, wish
        from pdctl.cli.load import load_reading
        from pdctl.hosts.answer import parse_answer
        from pdctl.hosts.probe import observation
        from pdctl.plan.document import plan_document
        from pdctl.views.console import print_json
    with _lap(seconds, "load and resolve"):
        topology, reading = load_reading(folder / "cluster.yaml")
    with _lap(seconds, "desire"):
        desired = wish(topology, folder)
    with _lap(seconds, "answers"):
        answers = {host: parse_answer(host, data) for host, data in lines(folder / "answers.jsonl")}
        seen = observation(answers, {})
    with _lap(seconds, "plan"):
        look = judge(topology, folder, desired, seen)
    with _lap(seconds, "account"):
        details = account(look, reading)
    with _lap(seconds, "document"), Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        document = plan_document(look.plan, details)
        print_json(document)
    return {
        "seconds": seconds,
        "wall_s": time.perf_counter() - began,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "changes": len(document["changes"]),
        "restarts": len(document["restarts"]),
    }


@contextmanager
def _lap(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.process_time()
    yield
    seconds[name] = time.process_time() - start


def _run(*words: str) -> str:
    """This program again, on one core."""
    done = subprocess.run(
        [sys.executable, __file__, *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    )
    return done.stdout


def main() -> int:
    if sys.argv[1:2] == ["prepare"]:
        write_case(_case(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
        return 0
    if sys.argv[1:2] == ["plan"]:
        print(json.dumps(plan(Path(sys.argv[4]))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, nargs="+", default=SIZES, help="numbers of hosts")
    parser.add_argument("--case", nargs="+", default=[case.name for case in CASES], help="cases by name")
    options = parser.parse_args()
    print(report(measure(options.hosts, options.case)))
    return 0


def _case(name: str) -> Any:
    return next(case for case in CASES if case.name == name)


if __name__ == "__main__":
    sys.exit(main())
