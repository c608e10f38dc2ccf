"""`pdctl validate` against the start of a Python with the same libraries -> a table of times."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import spread

ROOT = Path(__file__).parents[1]
SPEC = "inventories/hgx-h100-article/cluster.yaml"
BASELINE = "python -c 'import pydantic, ruamel.yaml'"
SMALLEST = "python -c ONE_MODEL"  # what any program that validates with pydantic starts with
VALIDATE = f"pdctl validate {SPEC}"
TARGET = 2.0  # validate shall take at most this many times the baseline
# `import pydantic` alone loads little: its modules load each other when they are first used.
ONE_MODEL = """\
import ruamel.yaml
from pydantic import BaseModel, ConfigDict, Field
class Spec(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cluster: str = Field(min_length=1)
Spec.model_validate(ruamel.yaml.YAML(typ="safe", pure=True).load("cluster: chat"))
"""
IMPORT = re.compile(r"^import time:\s+(\d+) \|\s+\d+ \|( +)(\S+)$", re.MULTILINE)
GROUPS = {
    "pydantic": "pydantic",
    "pydantic_core": "pydantic",
    "annotated_types": "pydantic",
    "typing_extensions": "pydantic",
    "typing_inspection": "pydantic",
    "ruamel": "ruamel.yaml",
    "typer": "typer",
    "pdctl": "pdctl",
}


@dataclass(frozen=True)
class Start:
    """One run of a command, in milliseconds."""

    wall_ms: float
    cpu_ms: float


@dataclass(frozen=True)
class Starts:
    """Runs of every command, and the milliseconds of its imports by library."""

    runs: Mapping[str, Sequence[Start]]
    imports: Mapping[str, Mapping[str, float]]

    def ratios(self, name: str, peer: str = BASELINE) -> list[float]:
        """Wall time of `name` over that of `peer`, per round."""
        both = zip(self.runs[name], self.runs[peer], strict=True)
        return [mine.wall_ms / base.wall_ms for mine, base in both]

    @property
    def met(self) -> bool:
        return median(self.ratios(VALIDATE)) <= TARGET


def measure(rounds: int) -> Starts:
    """Start every command once to compile its modules, then in turn."""
    python = sys.executable
    commands = {
        BASELINE: [python, "-c", "import pydantic, ruamel.yaml"],
        SMALLEST: [python, "-c", ONE_MODEL],
        VALIDATE: [python, str(Path(python).with_name("pdctl")), "validate", SPEC],
    }
    with tempfile.TemporaryDirectory(prefix="pdctl-bench-") as folder:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        env["PYTHONPYCACHEPREFIX"] = folder
        for argv in commands.values():
            _start(argv, env)
        runs: dict[str, list[Start]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, argv in commands.items():
                runs[name].append(_start(argv, env))
        return Starts(runs, {name: _imports(argv, env) for name, argv in commands.items()})


def report(starts: Starts) -> str:
    """Markdown: the times, the verdict, and where the time of imports goes when the target is missed."""
    lines = [
        "| command | wall ms | CPU ms | wall / baseline | wall / one model |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, runs in starts.runs.items():
        wall, cpu = spread([run.wall_ms for run in runs]), spread([run.cpu_ms for run in runs])
        over = " | ".join(f"{median(starts.ratios(name, peer)):.2f}" for peer in (BASELINE, SMALLEST))
        lines.append(f"| `{name}` | {wall} | {cpu} | {over} |")
    verdict = f"target <= {TARGET:g} times the baseline: {'met' if starts.met else 'MISSED'}"
    lines += ["", f"`pdctl validate`, median of {len(starts.runs[VALIDATE])} rounds, {verdict}"]
    return "\n".join(lines if starts.met else [*lines, "", *_import_table(starts)])


def document(starts: Starts) -> dict[str, Any]:
    runs = {name: [[run.wall_ms, run.cpu_ms] for run in runs] for name, runs in starts.runs.items()}
    return {
        "runs_wall_cpu_ms": runs,
        "ratio": median(starts.ratios(VALIDATE)),
        "ratio_to_one_model": median(starts.ratios(VALIDATE, SMALLEST)),
        "target": TARGET,
        "met": starts.met,
        "imports_ms": starts.imports,
    }


def import_times(text: str) -> dict[str, float]:
    """Milliseconds of `-X importtime` by library; Python's own modules count for who loads them."""
    totals: dict[str, float] = {}
    above: list[str] = []  # libraries of the modules around; a module is printed after those it loads
    for microseconds, indent, name in reversed(IMPORT.findall(text)):
        depth = len(indent) // 2
        group = GROUPS.get(name.split(".")[0], above[depth - 1] if depth else "python")
        above[depth:] = [group]
        totals[group] = totals.get(group, 0.0) + int(microseconds) / 1000
    return totals


def _import_table(starts: Starts) -> list[str]:
    commands = list(starts.imports)
    columns = [starts.imports[name] for name in commands]
    lines = ["| milliseconds of imports, least of 5 | baseline | one model | validate |"]
    lines += ["| --- | ---: | ---: | ---: |"]
    for group in ("python", "pydantic", "ruamel.yaml", "typer", "pdctl"):
        lines.append(f"| {group} | {' | '.join(f'{column.get(group, 0.0):.1f}' for column in columns)} |")
    return lines


def _start(argv: Sequence[str], env: Mapping[str, str]) -> Start:
    start = time.perf_counter()
    process = subprocess.Popen(argv, cwd=ROOT, env=dict(env), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"`{' '.join(argv)}` failed (exit status {process.returncode})")
    return Start(wall * 1000, (usage.ru_utime + usage.ru_stime) * 1000)


def _imports(argv: Sequence[str], env: Mapping[str, str]) -> dict[str, float]:
    """The least of five for every library: the others were disturbed more."""
    words = [argv[0], "-X", "importtime", *argv[1:]]
    texts = [
        subprocess.run(words, cwd=ROOT, env=dict(env), capture_output=True, text=True, check=True).stderr
        for _ in range(5)
    ]
    found = [import_times(text) for text in texts]
    return {group: min(times[group] for times in found) for group in found[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="runs of each command (default 15)")
    print(report(measure(parser.parse_args().rounds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
