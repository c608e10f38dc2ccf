"""The arithmetic of benchmarks/: medians, ratios per round, and what counts as a run that changed nothing."""

from __future__ import annotations

import pytest

from benchmarks.figures import (
    Sample,
    Target,
    document,
    peer_problem,
    plan_problem,
    ratio_table,
    ratios,
    recap_problem,
    sample_table,
    spread,
)

OK = "ok=44 changed=0 unreachable=0 failed=0 skipped=1 rescued=0 ignored=0"


def output(**hosts: str) -> str:
    """The end of what ansible-playbook prints."""
    rows = "".join(f"{host:<26} : {counts}\n" for host, counts in hosts.items())
    return f"TASK [Count the GPUs] ****\nok: [h1]\n\nPLAY RECAP ****\n{rows}\n"


def sample(row: str, number: int, wall: float, problem: str | None = None) -> Sample:
    return Sample(row, number, wall, wall / 2, wall / 4, 0.1, problem)


def test_a_ratio_is_the_median_of_the_rounds_and_not_of_the_walls() -> None:
    walls = {"peer": (30.0, 100.0, 20.0), "ours": (1.0, 10.0, 2.0)}
    samples = [sample(row, n, wall) for row, some in walls.items() for n, wall in enumerate(some, 1)]
    (ratio,) = ratios(samples, [Target("peer", "ours", 15)], 0.0)
    assert ratio.per_round == (30.0, 10.0, 10.0)
    assert ratio.median == 10.0
    assert not ratio.met


def test_a_round_in_which_a_run_failed_counts_for_no_ratio() -> None:
    samples = [
        sample("peer", 1, 30.0),
        sample("ours", 1, 1.0, "exit status 1"),
        sample("peer", 2, 40.0),
        sample("ours", 2, 2.0),
    ]
    (ratio,) = ratios(samples, [Target("peer", "ours", 15)], 0.0)
    assert ratio.per_round == (20.0,)
    assert ratio.met
    assert ratios(samples, [Target("peer", "nobody", 15)], 0.0) == []


def test_every_line_of_a_table_has_as_many_columns_as_its_head() -> None:
    samples = [sample("peer", 1, 30.0), sample("ours", 1, 2.0), sample("bad", 1, 1.0, "exit status 1")]
    tables = (sample_table(samples, 0.0), ratio_table(ratios(samples, [Target("peer", "ours", 15)], 0.0)))
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_a_target_is_met_at_its_very_value_and_a_miss_is_said_plainly() -> None:
    samples = [sample("peer", 1, 30.0), sample("ours", 1, 2.0)]
    met, missed = ratios(samples, [Target("peer", "ours", 15), Target("peer", "ours", 15.01)], 0.0)
    lines = ratio_table([met, missed]).splitlines()
    assert lines[-2] == "| peer | ours | 15.00 (15.00 to 15.00) | >= 15 | met | 15.0 |"
    assert lines[-1].endswith("| >= 15.01 | MISSED | 15.0 |")


def test_the_table_shows_the_median_and_the_ends_and_takes_away_idle_hosts() -> None:
    samples = [sample("ours", n, wall) for n, wall in enumerate((4.0, 1.0, 2.0), 1)]
    row = sample_table(samples, hosts_idle=0.125).splitlines()[-1]
    assert row.startswith("| ours | 3 | 2.00 (1.00 to 4.00) | 1.00 (0.50 to 2.00) |")
    assert row.split(" | ")[4] == "0.25 (0.12 to 0.50)"


def test_the_ratio_of_cpu_counts_both_sides_and_takes_away_idle_hosts() -> None:
    peer, ours = Sample("peer", 1, 10.0, 6.0, 6.0, 0.0), Sample("ours", 1, 2.0, 0.5, 0.9, 0.0)
    (ratio,) = ratios([peer, ours], [Target("peer", "ours", 1)], hosts_idle=0.2)
    assert ratio.cpu_per_round == (pytest.approx(10.0),)  # (6 + 6 - 2) / (0.5 + 0.9 - 0.4)


def test_a_row_without_a_good_run_is_called_failed() -> None:
    assert "| ours | 0 | failed |" in sample_table([sample("ours", 1, 1.0, "exit status 1")], 0.0)


def test_of_an_even_number_of_rounds_the_median_is_the_mean_of_the_middle() -> None:
    assert spread([1.0, 2.0, 3.0, 10.0]) == "2.50 (1.00 to 10.00)"


def test_a_recap_without_changes_on_every_host_is_a_re_apply() -> None:
    assert recap_problem(output(h1=OK, h2=OK), hosts=2) is None


@pytest.mark.parametrize("count", ["changed", "unreachable", "failed"])
def test_one_host_with_a_change_or_a_failure_is_a_problem(count: str) -> None:
    off = output(h1=OK, h2=OK.replace(f"{count}=0", f"{count}=1"))
    assert recap_problem(off, hosts=2) == f"h2: {{'{count}': 1}}"


def test_a_host_that_is_missing_or_did_nothing_is_a_problem() -> None:
    assert recap_problem(output(h1=OK), hosts=2) == "the recap names 1 hosts, not 2"
    assert recap_problem(output(h1=OK, h2=OK).replace("PLAY RECAP", ""), hosts=2)
    assert recap_problem(output(h1=OK.replace("ok=44", "ok=0")), hosts=1) == "h1: nothing was ok"
    assert recap_problem("", hosts=1)


def test_only_the_last_recap_of_an_output_counts() -> None:
    earlier = output(h1=OK.replace("changed=0", "changed=7"))
    assert recap_problem(earlier + output(h1=OK), hosts=1) is None
    assert recap_problem(output(h1=OK) + earlier, hosts=1)


def test_a_run_that_carries_out_a_change_must_change_something_on_every_host() -> None:
    changed = OK.replace("changed=0", "changed=3")
    assert recap_problem(output(h1=changed, h2=changed), hosts=2, changes=True) is None
    assert recap_problem(output(h1=changed, h2=OK), hosts=2, changes=True) == "h2: {'changed': 0}"
    failed = changed.replace("failed=0", "failed=1")
    assert recap_problem(output(h1=failed), hosts=1, changes=True) == "h1: {'failed': 1}"


@pytest.mark.parametrize(
    ("totals", "idle", "busy"),
    [
        ("47      -         -       47", True, False),
        ("47      16        -       31", False, True),
        ("47      16        1       30", False, False),
        ("47      -         11      36", False, False),
    ],
)
def test_pyinfra_counts_what_changed_and_what_failed(totals: str, idle: bool, busy: bool) -> None:
    text = f"    Operation   Hosts   Success   Error   No Change\n    Grand total   {totals}   \n"
    assert (peer_problem(text, changes=False) is None) is idle
    assert (peer_problem(text, changes=True) is None) is busy


def test_pyinfra_without_totals_has_not_finished() -> None:
    assert peer_problem("Error: no hosts", changes=False)


def test_a_ratio_without_a_target_is_shown_and_not_judged() -> None:
    (ratio,) = ratios(
        [sample("peer", 1, 1.0), sample("ours", 1, 2.0)], [Target("peer", "ours", None)], hosts_idle=0.0
    )
    assert ratio.met is None
    assert ratio_table([ratio]).splitlines()[-1] == "| peer | ours | 0.50 (0.50 to 0.50) |  |  | 0.5 |"


def test_pdctl_must_say_that_there_was_nothing_to_do_on_all_hosts() -> None:
    assert plan_problem("Nothing to do: `speed` is as its spec says\n") is None
    assert plan_problem("Nothing to do on the hosts that answered: `speed` is as its spec says\n")
    assert plan_problem("Plan for `speed`: 1 to update\n")


def test_the_document_keeps_every_sample_and_names_the_verdict() -> None:
    samples = [sample("peer", 1, 30.0), sample("ours", 1, 1.0)]
    found = document(samples, ratios(samples, [Target("peer", "ours", 15)], 0.0), 0.5, {"cores": 2})
    assert [s["wall_s"] for s in found["samples"]] == [30.0, 1.0]
    assert found["ratios"][0]["median"] == 30.0
    assert found["ratios"][0]["met"] is True
    assert found["machine"] == {"cores": 2}
