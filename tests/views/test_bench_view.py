import io
from dataclasses import replace

import pytest
from rich.console import Console

from pdctl.bench.counters import PromptCheck
from pdctl.bench.findings import findings
from pdctl.bench.slo import Slo, judge
from pdctl.bench.stats import Meta, RequestSample, summarise
from pdctl.views.bench import show_bench

META = Meta("20261130-120000", "tiny", 4, 128, 32, 7, simulated=False, client_path="ssh tunnel")
GOOD = RequestSample(0.0, 0.123, (0.010, 0.020, 0.030), 128, 4)
BAD = RequestSample(0.0, None, (), 128, 0, error="HTTP 500: [/bold]no slot[red]")


def shown(samples, meta=META, slo=None, check=None, terminal=False, **about) -> str:
    summary = summarise(samples, 2.0, meta, **about)
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    show_bench(summary, console, judge(summary, slo) if slo else None, findings(summary, check), check)
    return console.file.getvalue()


def test_the_table_gives_each_metric_with_its_percentiles_and_population():
    rows = {line.split()[0]: line.split()[1:] for line in shown([GOOD, GOOD]).splitlines() if line.strip()}
    assert rows["ms"] == ["mean", "p50", "p90", "p99", "count"]
    assert rows["TTFT"] == ["123"] * 4 + ["2"]
    assert rows["TPOT"] == ["20.00"] * 4 + ["2"]
    assert rows["ITL"] == ["20.00", "20.00", "30.00", "30.00", "6"]
    assert rows["E2E"] == ["183"] * 4 + ["2"]


def test_throughput_stands_beside_the_success_count():
    line = next(line for line in shown([GOOD, BAD]).splitlines() if line.startswith("throughput"))
    assert "0.50 requests/s" in line and "1 of 2 requests completed" in line


def test_nothing_completed_is_not_available_rather_than_zero():
    text = shown([BAD, BAD])
    row = next(line for line in text.splitlines() if line.startswith("TTFT"))
    assert row.split()[1:] == ["n/a"] * 4 + ["0"]
    assert "0 of 2 requests completed" in text and "FAILED: 2 of 2 requests" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_text_from_outside_is_shown_as_it_is(terminal):
    text = shown([BAD], replace(META, label="[bold]x[/nope]", model_id="m\x1b[2J"), terminal=terminal)
    assert "1 x HTTP 500: [/bold]no slot[red]" in text and "[bold]x[/nope]" in text and "\x1b[2J" not in text


def test_only_the_first_distinct_errors_are_shown():
    text = shown([replace(BAD, error=f"error {number}") for number in range(5)])
    assert "1 x error 2" in text and "error 3" not in text and "and 2 other errors" in text


def test_a_simulated_run_says_so_first_and_loudly():
    text = shown([GOOD], replace(META, simulated=True))
    assert text.splitlines()[0] == "*** SIMULATED ENGINE: not a measurement of any hardware ***"
    assert "SIMULATED" not in shown([GOOD])


def test_the_verdict_is_told_in_words():
    assert "SLO met: attainment 100.0%, goodput 0.50 requests/s" in shown([GOOD], slo=Slo(ttft_ms=200))
    missed = shown([GOOD], slo=Slo(ttft_ms=100))
    assert "SLO MISSED: attainment 0.0%" in missed and "should have ttft <= 100 ms; 0.0% did" in missed


def test_how_it_was_measured_is_part_of_the_report():
    text = shown([GOOD], check=PromptCheck(128, 160, 0), interrupted="interrupted")
    assert "a stress test, not a model of users" in text and "seed 7, measured over: ssh tunnel" in text
    assert "ITL: every gap between two successive token chunks" in text
    assert "prompt tokens: client 128, server 160" in text and "warning: the server counted 160" in text
    assert "(partial: interrupted)" in text and "warning: the run is partial" in text


def test_a_pipe_gets_plain_unwrapped_lines():
    text = shown([GOOD, BAD], slo=Slo(ttft_ms=1))
    assert "\x1b" not in text and not set(text) & set("─━│┃╭╰")
    assert max(map(len, text.splitlines())) > 100


def test_a_terminal_is_told_the_same_words():
    assert "SLO MISSED" in shown([BAD], slo=Slo(ttft_ms=1), terminal=True)
    assert "FAILED: 1 of 1 requests" in shown([BAD], terminal=True)
