"""Summary -> the report of `pdctl bench`, for a terminal or, plain, for a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from pdctl.bench.answer import one_line
from pdctl.bench.counters import PromptCheck
from pdctl.bench.fields import LOOP
from pdctl.bench.findings import Finding
from pdctl.bench.slo import Verdict
from pdctl.bench.stats import ITL_DEFINITION, Distribution, Summary, distinct_errors

SHOWN_ERRORS = 3

_STYLES = {"warning": "yellow", "note": "dim"}


def show_bench(
    summary: Summary,
    console: Console,
    verdict: Verdict | None = None,
    findings: Sequence[Finding] = (),
    prompt_check: PromptCheck | None = None,
) -> None:
    """Every line says in words what colour only repeats; a pipe gets no boxes and no wrapped lines."""
    plain = not console.is_terminal
    report = Group(
        *_simulated(summary),
        _headline(summary),
        _table(summary, plain),
        _throughput(summary),
        *_prompts(prompt_check),
        *_verdict(verdict),
        *_failures(summary),
        *(Text(f"{finding.level}: {finding.text}", style=_STYLES[finding.level]) for finding in findings),
        *_how(summary),
    )
    console.print(report, soft_wrap=plain, highlight=False)


def _simulated(summary: Summary) -> Iterator[Text]:
    if summary.meta.simulated:
        yield Text("*** SIMULATED ENGINE: not a measurement of any hardware ***", style="bold reverse yellow")


def _headline(summary: Summary) -> Text:
    meta = summary.meta
    named = f"{one_line(meta.label)}, " if meta.label else ""
    outcome = "" if not summary.interrupted else f" (partial: {summary.interrupted})"
    return Text(
        f"{named}model {one_line(meta.model_id)}: {_counted(summary)} in {summary.duration_s:.2f} s{outcome}",
        style="bold" if not summary.failed else "bold red",
    )


def _counted(summary: Summary) -> str:
    return f"{summary.completed} of {summary.num_prompts} requests completed"


def _table(summary: Summary, plain: bool) -> Table:
    rows = {"TTFT": summary.ttft, "TPOT": summary.tpot, "ITL": summary.itl, "E2E": summary.e2el}
    table = Table(box=None if plain else box.SIMPLE_HEAD, pad_edge=not plain)
    table.add_column("ms")
    for heading in ("mean", *(f"p{q:g}" for q in summary.ttft.percentiles), "count"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, values in rows.items():
        table.add_row(name, *_cells(values), f"{values.count:,}")
    return table


def _cells(values: Distribution) -> list[str]:
    return [_figure(value) for value in (values.mean, *values.percentiles.values())]


def _figure(value: float | None) -> str:
    """Absent is n/a, never 0.00, which would read as a record."""
    if value is None:
        return "n/a"
    return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"


def _throughput(summary: Summary) -> Text:
    """Speed stands beside the success count: requests that fail at once make the rest look fast."""
    return Text(
        f"throughput: {_figure(summary.request_throughput)} requests/s, "
        f"{_figure(summary.output_throughput)} output tokens/s, "
        f"{_figure(summary.total_token_throughput)} tokens/s in and out; {_counted(summary)}"
    )


def _prompts(check: PromptCheck | None) -> Iterator[Text]:
    if check and check.server_tokens is not None:
        yield Text(f"prompt tokens: client {check.client_tokens:,}, server {check.server_tokens:,}")


def _verdict(verdict: Verdict | None) -> Iterator[Text]:
    if verdict is None:
        return
    share = "n/a" if verdict.attainment is None else f"{verdict.attainment:.1%}"
    style = "green" if verdict.met else "bold red"
    outcome = f"SLO {'met' if verdict.met else 'MISSED'}"
    yield Text(f"{outcome}: attainment {share}, goodput {_figure(verdict.goodput)} requests/s", style=style)
    for line in verdict.missed:
        yield Text(f"  {line}", style=style)


def _failures(summary: Summary) -> Iterator[Text]:
    if not summary.failed:
        return
    yield Text(f"FAILED: {summary.failed} of {summary.num_prompts} requests", style="bold red")
    distinct = distinct_errors(sample.error for sample in summary.samples)
    for error, count in distinct[:SHOWN_ERRORS]:
        yield Text(f"  {count} x {one_line(error)}", style="red")
    if len(distinct) > SHOWN_ERRORS:
        yield Text(f"  and {len(distinct) - SHOWN_ERRORS} other errors, in the result file")


def _how(summary: Summary) -> Iterator[Text]:
    meta = summary.meta
    yield Text(
        f"how: {meta.max_concurrency} at a time, {meta.input_len:,} {meta.prompt_kind} in, "
        f"{meta.output_len:,} tokens out, seed {meta.seed}, measured over: {one_line(meta.client_path)}",
        style="dim",
    )
    yield Text(LOOP, style="dim")
    yield Text(ITL_DEFINITION, style="dim")
