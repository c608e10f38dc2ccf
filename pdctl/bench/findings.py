"""Summary + counters -> findings: what a reader must know before believing the numbers (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pdctl.bench.counters import TOLERATED, PromptCheck
from pdctl.bench.stats import RequestSample, Summary

# p99 of fewer values than this lies between the two largest: it is about one request, not about a tail
ENOUGH_FOR_P99 = 100

# an answer cut by more than this is another workload than the one asked for
EARLY_STOP = TOLERATED


@dataclass(frozen=True)
class Finding:
    """`warning`: the numbers may be wrong (fails a strict run); `note`: read them with this in mind."""

    level: Literal["warning", "note"]
    text: str


def findings(summary: Summary, prompt_check: PromptCheck | None = None) -> tuple[Finding, ...]:
    good = [sample for sample in summary.samples if sample.completed]
    return (
        *_simulated(summary),
        *_interrupted(summary),
        *_prompts(prompt_check),
        *_reported(good),
        *_early_stop(summary, good),
        *_chunks(good),
        *_first_token(summary),
        *_few(good),
    )


def _simulated(summary: Summary) -> Iterator[Finding]:
    if summary.meta.simulated:
        yield Finding("note", "the engine is a simulator: these numbers say nothing about real hardware")


def _interrupted(summary: Summary) -> Iterator[Finding]:
    if summary.interrupted:
        yield Finding("warning", f"the run is partial: {summary.interrupted}")


def _prompts(check: PromptCheck | None) -> Iterator[Finding]:
    if check is None:
        return
    if check.problem:
        yield Finding("warning", f"prompt tokens could not be compared with the server's: {check.problem}")
    if check.deviates and check.deviation is not None:
        yield Finding(
            "warning",
            f"the server counted {check.server_tokens:,} prompt tokens, the client {check.client_tokens:,} "
            f"({check.deviation:+.1%}): another tokenizer, or other traffic during the run",
        )
    if check.cached_tokens and check.server_tokens:
        yield Finding(
            "warning",
            f"{check.cached_tokens / check.server_tokens:.0%} of the prompt tokens were in the prefix cache, "
            "so TTFT is better than for new prompts; use another seed",
        )


def _reported(good: list[RequestSample]) -> Iterator[Finding]:
    """The usage of each answer is a second witness, there also when /metrics cannot be read."""
    known = [(s.input_tokens, s.reported_input_tokens) for s in good if s.reported_input_tokens is not None]
    sent, reported = sum(pair[0] for pair in known), sum(pair[1] for pair in known)
    if sent and abs(reported / sent - 1) > TOLERATED:
        yield Finding("warning", f"the answers' usage reports {reported:,} prompt tokens for {sent:,} sent")


def _early_stop(summary: Summary, good: list[RequestSample]) -> Iterator[Finding]:
    wanted = summary.meta.output_len
    short = sum(sample.output_tokens < wanted * (1 - EARLY_STOP) for sample in good)
    if summary.meta.ignore_eos and short:
        yield Finding(
            "warning", f"early stop: {short} of {len(good)} answers have fewer than {wanted} tokens"
        )


def _chunks(good: list[RequestSample]) -> Iterator[Finding]:
    unknown = sum(sample.counted_by_chunks for sample in good)
    if unknown:
        yield Finding("note", f"{unknown} answers carried no usage: their output tokens are their chunks")
    chunks, tokens = sum(s.chunks for s in good), sum(s.output_tokens for s in good)
    if chunks and abs(tokens / chunks - 1) > TOLERATED:
        yield Finding(
            "note",
            f"{tokens:,} output tokens came in {chunks:,} chunks ({tokens / chunks:.2f} a chunk): "
            "ITL is per chunk, TPOT per token",
        )


def _first_token(summary: Summary) -> Iterator[Finding]:
    if summary.meta.first_token_from_prefiller:
        yield Finding(
            "note",
            "TTFT ends with the prefiller's token, before the KV has moved: "
            "the transfer is in each request's first gap, so in the tail of ITL",
        )


def _few(good: list[RequestSample]) -> Iterator[Finding]:
    if 0 < len(good) < ENOUGH_FOR_P99:
        yield Finding("note", f"p99 of TTFT and TPOT over {len(good)} requests is about the slowest one")
