"""Engines' /metrics text before and after the load -> what the server says it was given (pure)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# vLLM 0.11.0 and 0.33.0, v1/metrics: counters carry `_total` in the exposition; cache hits are tokens
PROMPT_TOKENS = "vllm:prompt_tokens_total"
PREFIX_HITS = "vllm:prefix_cache_hits_total"

TOLERATED = 0.02  # client and server may differ by this share, e.g. a BOS token on a short prompt

_SAMPLE = re.compile(
    r'([a-zA-Z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*$'
)


@dataclass(frozen=True)
class Reading:
    """One scrape of one instance: totals over all label sets, or why there are none."""

    totals: Mapping[str, float]
    error: str = ""


@dataclass(frozen=True)
class PromptCheck:
    """The client's total of prompt tokens beside the servers' own."""

    client_tokens: int
    server_tokens: int | None  # None: not known, see `problem`
    cached_tokens: int | None  # of the server's: found in its prefix cache, so not computed
    problem: str = ""

    @property
    def deviation(self) -> float | None:
        if self.server_tokens is None or not self.client_tokens:
            return None
        return self.server_tokens / self.client_tokens - 1

    @property
    def deviates(self) -> bool:
        return self.deviation is not None and abs(self.deviation) > TOLERATED


def totals(text: str) -> dict[str, float]:
    """Sum each metric of a Prometheus text over its label sets; lines that are no sample are left out."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        found = None if line.startswith("#") else _SAMPLE.match(line.strip())
        if found and (value := _number(found[3])) is not None:
            sums[found[1]] = sums.get(found[1], 0.0) + value
    return sums


def check_prompts(
    client_tokens: int, before: Mapping[str, Reading], after: Mapping[str, Reading]
) -> PromptCheck | None:
    """Compare over the instances that compute prompts, by name; None: none were given to ask."""
    if not before:
        return None
    problem = _problem(before, after)
    if problem:
        return PromptCheck(client_tokens, None, None, problem)
    server = sum(_grown(PROMPT_TOKENS, before[name], after[name]) for name in before)
    counted = all(PREFIX_HITS in reading.totals for reading in after.values())
    cached = sum(_grown(PREFIX_HITS, before[name], after[name]) for name in before) if counted else None
    return PromptCheck(client_tokens, server, cached)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _problem(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> str:
    return next(filter(None, _problems(before, after)), "")


def _problems(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> Iterable[str]:
    for name in before:
        was, now = before[name], after.get(name, Reading({}, "not read after the load"))
        if was.error or now.error:
            yield f"{name}: {was.error or now.error}"
        elif PROMPT_TOKENS not in now.totals:
            yield f"{name}: its /metrics has no {PROMPT_TOKENS}"
        elif now.totals[PROMPT_TOKENS] < was.totals.get(PROMPT_TOKENS, 0.0):
            yield f"{name}: {PROMPT_TOKENS} fell during the load, so the engine restarted"


def _grown(name: str, before: Reading, after: Reading) -> int:
    # a counter without observations may be absent before the first request
    return round(after.totals[name] - before.totals.get(name, 0.0))
