"""Samples of timed runs -> medians, ratios and the text that says whether the targets were met."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

RECAP = re.compile(r"^(\S+)\s+: (ok=\d+ .*)$", re.MULTILINE)
NOTHING = "Nothing to do: "
TOTAL = re.compile(r"^\s*Grand total\s+\d+\s+(\d+|-)\s+(\d+|-)\s", re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """One timed run. CPU seconds are those of all processes of that side together."""

    row: str
    round: int
    wall_s: float
    controller_cpu_s: float
    hosts_cpu_s: float
    other_cpu_s: float  # what the rest of the machine used meanwhile: high values blur the wall times
    problem: str | None = None


@dataclass(frozen=True)
class Target:
    """`row` shall be at least `at_least` times as fast as `peer`; None: it is only shown."""

    peer: str
    row: str
    at_least: float | None


@dataclass(frozen=True)
class Ratio:
    """How many times the wall time, and the CPU of both sides together, the peer took in each round."""

    target: Target
    per_round: tuple[float, ...]
    cpu_per_round: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.per_round)

    @property
    def met(self) -> bool | None:
        wanted = self.target.at_least
        return None if wanted is None else self.median >= wanted


def ratios(samples: Sequence[Sample], targets: Iterable[Target], hosts_idle: float) -> list[Ratio]:
    """Per round, so that drift of the machine meets both sides; a target without a good round is left out."""
    good = {(s.row, s.round): s for s in samples if s.problem is None}
    rounds = sorted({s.round for s in samples})
    found = []
    for target in targets:
        both = [
            (good[target.peer, n], good[target.row, n])
            for n in rounds
            if (target.peer, n) in good and (target.row, n) in good
        ]
        if both:
            walls = tuple(peer.wall_s / row.wall_s for peer, row in both)
            cpus = tuple(cpu(peer, hosts_idle) / cpu(row, hosts_idle) for peer, row in both)
            found.append(Ratio(target, walls, cpus))
    return found


def cpu(sample: Sample, hosts_idle: float) -> float:
    """CPU seconds of the controller and the hosts for the run's sake."""
    return sample.controller_cpu_s + hosts_cpu(sample, hosts_idle)


def hosts_cpu(sample: Sample, hosts_idle: float) -> float:
    """Without what the idle hosts use anyway in that time."""
    return max(0.0, sample.hosts_cpu_s - hosts_idle * sample.wall_s)


def sample_table(samples: Sequence[Sample], hosts_idle: float) -> str:
    """A Markdown table: wall seconds and CPU seconds of each row, as median (min to max)."""
    lines = [
        "| run | rounds | wall s | controller CPU s | hosts' CPU s | other CPU s |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    good = [s for s in samples if s.problem is None]
    for row in dict.fromkeys(s.row for s in samples):
        mine = [s for s in good if s.row == row]
        if not mine:
            lines.append(f"| {row} | 0 | failed | | | |")
            continue
        columns = [
            [s.wall_s for s in mine],
            [s.controller_cpu_s for s in mine],
            [hosts_cpu(s, hosts_idle) for s in mine],
            [s.other_cpu_s for s in mine],
        ]
        lines.append(f"| {row} | {len(mine)} | {' | '.join(map(spread, columns))} |")
    return "\n".join(lines)


def ratio_table(found: Sequence[Ratio]) -> str:
    """A Markdown table: each target, what was measured, and plainly whether it is met."""
    lines = [
        "| peer | divided by | wall, median (min to max) | target | | CPU, median |",
        "| --- | --- | ---: | ---: | --- | ---: |",
    ]
    for ratio in found:
        verdict = {True: "met", False: "MISSED", None: ""}[ratio.met]
        target = "" if ratio.target.at_least is None else f">= {ratio.target.at_least:g}"
        names = f"{ratio.target.peer} | {ratio.target.row}"
        used = f"{median(ratio.cpu_per_round):.1f}"
        lines.append(f"| {names} | {spread(ratio.per_round)} | {target} | {verdict} | {used} |")
    return "\n".join(lines)


def spread(values: Sequence[float]) -> str:
    """`2.10 (1.95 to 3.00)`"""
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def recap_problem(output: str, hosts: int, *, changes: bool = False) -> str | None:
    """Why an ansible-playbook run was not one that changed nothing on every host, or something on each."""
    rows = recap(output)
    if len(rows) != hosts:
        return f"the recap names {len(rows)} hosts, not {hosts}"
    for host, counts in rows.items():
        wrong = {key: counts.get(key) for key in ("unreachable", "failed") if counts.get(key) != 0}
        if bool(counts.get("changed")) is not changes:
            wrong["changed"] = counts.get("changed")
        if wrong or not counts.get("ok"):
            return f"{host}: {wrong or 'nothing was ok'}"
    return None


def recap(output: str) -> dict[str, dict[str, int]]:
    """The counts of each host in ansible-playbook's PLAY RECAP."""
    _, found, tail = output.rpartition("PLAY RECAP")
    if not found:
        return {}
    return {
        host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counts)}
        for host, counts in RECAP.findall(tail)
    }


def plan_problem(output: str) -> str | None:
    """Why a pdctl run was not one that found nothing to do; None if it was."""
    return None if NOTHING in output else f"pdctl did not say `{NOTHING.strip()}`"


def peer_problem(output: str, *, changes: bool) -> str | None:
    """The same for pyinfra, whose totals are of operations on all hosts together."""
    found = TOTAL.search(output)
    if not found:
        return "pyinfra printed no grand total"
    success, error = (0 if word == "-" else int(word) for word in found.groups())
    if error or bool(success) is not changes:
        return f"pyinfra: {success} operations changed something, {error} failed"
    return None


def document(
    samples: Sequence[Sample], found: Sequence[Ratio], hosts_idle: float, machine: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "format": "pdctl-speed/1",
        "machine": dict(machine),
        "hosts_idle_cpu": hosts_idle,
        "samples": [asdict(sample) for sample in samples],
        "ratios": [
            asdict(ratio.target)
            | {"per_round": ratio.per_round, "median": ratio.median, "met": ratio.met}
            | {"cpu_per_round": ratio.cpu_per_round}
            for ratio in found
        ],
    }
