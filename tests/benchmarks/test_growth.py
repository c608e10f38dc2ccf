"""What grows with the number of hosts, and how the plan's cost is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.figures import Sample
from benchmarks.growth import growth_table
from benchmarks.plan_scale import PHASES, Cost, plan, report
from benchmarks.rows import DIFF
from benchmarks.simulated import CASES, write_case

COST = Cost("nothing to do", 1000, dict.fromkeys(PHASES, 0.5), 4.0, 200.0, 0, 0)


def samples(*walls: float) -> dict[int, list[Sample]]:
    return {8 * 2**n: [Sample(DIFF, 1, wall, wall / 2, 0.0, 0.0)] for n, wall in enumerate(walls)}


def diff_rows(*walls: float) -> list[str]:
    found = samples(*walls)
    table = growth_table(found, dict.fromkeys(found, 0.0))
    return [line for line in table.splitlines() if line.startswith(f"| {DIFF} |")]


def test_twice_the_time_for_twice_the_hosts_is_linear() -> None:
    first, second, third = diff_rows(1.0, 2.0, 3.0)
    assert "linear" not in first
    assert second.endswith("| 2.0 | 2.00 | 2.00 | at most linear |")
    assert third.endswith("| 2.0 | 1.50 | 1.50 | at most linear |")


def test_more_than_twice_the_time_for_twice_the_hosts_is_said_plainly() -> None:
    assert diff_rows(1.0, 2.5)[-1].endswith("| MORE THAN LINEAR |")


def test_a_size_without_a_good_run_is_called_failed() -> None:
    found = samples(1.0, 2.0)
    found[16] = [replace(found[16][0], problem="exit status 1")]
    assert f"| {DIFF} | 16 | failed |" in growth_table(found, dict.fromkeys(found, 0.0))


def test_the_targets_of_a_plan_hold_for_the_largest_number_of_hosts_alone() -> None:
    assert "met by every case" in report([replace(COST, hosts=10, peak_mb=900.0), COST])
    assert "MISSED by: nothing to do" in report([replace(COST, peak_mb=500.0)])
    slow = dict.fromkeys(PHASES, 5 / len(PHASES))
    assert "MISSED by: nothing to do" in report([replace(COST, seconds=slow)])


@pytest.mark.parametrize(
    ("case", "changes", "restarts"),
    [
        ("nothing to do", 0, 0),
        ("one file edited on one host", 1, 0),
        # Decoders of 3 hosts: unit file, unit; and every prefiller, since it would keep their old addresses.
        ("one setting of all decoders", 12, 12),
    ],
)
def test_simulated_hosts_are_as_pdctl_left_them_but_for_the_case(
    case: str, changes: int, restarts: int, tmp_path: Path
) -> None:
    (found,) = (each for each in CASES if each.name == case)
    write_case(found, 3, tmp_path)
    result = plan(tmp_path)
    assert (result["changes"], result["restarts"]) == (changes, restarts)
    assert set(result["seconds"]) == set(PHASES)
