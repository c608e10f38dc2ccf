"""Request samples -> Summary: the arithmetic of a benchmark, nothing else."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

PERCENTILES = (50.0, 90.0, 99.0)

ITL_DEFINITION = (
    "ITL: every gap between two successive token chunks of a completed request, as the client received them, "
    "pooled over all requests; a chunk counts once however many tokens it carries. "
    "TPOT: per request, (last chunk - first chunk) / (output tokens - 1), output tokens as the server's "
    "usage reports them. TTFT: first token chunk received - request sent."
)


@dataclass(frozen=True)
class RequestSample:
    """What the client saw of one request; `error` is empty exactly when the request completed."""

    start_s: float | None  # since the load began; None: never sent
    ttft_s: float | None
    itls_s: tuple[float, ...]
    input_tokens: int
    output_tokens: int
    text: str | None = None
    error: str = ""
    reported_input_tokens: int | None = None  # the server's usage.prompt_tokens
    counted_by_chunks: bool = False  # the server sent no usage: output_tokens is the number of chunks

    def __post_init__(self) -> None:
        times = [time for time in (self.start_s, self.ttft_s, *self.itls_s) if time is not None]
        if not all(math.isfinite(time) and time >= 0 for time in times):
            raise ValueError(f"a sample's times must be finite and not negative: {times[:4]}")
        if not self.error and self.ttft_s is None:
            raise ValueError("a completed request has a first token")

    @property
    def completed(self) -> bool:
        return not self.error

    @property
    def chunks(self) -> int:
        return 0 if self.ttft_s is None else 1 + len(self.itls_s)

    @property
    def e2el_s(self) -> float | None:
        return None if self.ttft_s is None else self.ttft_s + math.fsum(self.itls_s)

    @property
    def tpot_s(self) -> float | None:
        """None for a single token: it has no time between tokens."""
        return math.fsum(self.itls_s) / (self.output_tokens - 1) if self.output_tokens > 1 else None


@dataclass(frozen=True)
class Meta:
    """What a reader must know to compare this run with another like with like."""

    date: str  # YYYYMMDD-HHMMSS, as vLLM's bench writes it
    model_id: str
    max_concurrency: int
    input_len: int
    output_len: int
    seed: int
    simulated: bool
    client_path: str  # "direct" or "ssh tunnel"
    label: str | None = None
    tokenizer_id: str | None = None  # None: prompts were token ids or words, no tokenizer took part
    backend: str = "openai"
    endpoint_type: str = "openai"
    prompt_kind: str = "tokens"
    ignore_eos: bool = True
    # the proxy passes the prefiller's token on before the KV has moved (LMCache 0.3.10's protocol)
    first_token_from_prefiller: bool = False
    request_rate: float | None = None  # None: no rate, written "inf"
    burstiness: float = 1.0
    spec_digest: str | None = None
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Distribution:
    """One metric over its population, in milliseconds; all None when there is nothing to describe."""

    count: int
    mean: float | None
    median: float | None
    std: float | None  # of the population, as numpy's default
    percentiles: Mapping[float, float | None]

    def at(self, q: float) -> float | None:
        return self.percentiles[q]


@dataclass(frozen=True)
class Summary:
    meta: Meta
    samples: tuple[RequestSample, ...]
    duration_s: float
    interrupted: str  # why the run ended early; empty: it did not
    total_input_tokens: int
    total_output_tokens: int
    request_throughput: float | None
    output_throughput: float | None
    total_token_throughput: float | None
    ttft: Distribution
    tpot: Distribution
    itl: Distribution
    e2el: Distribution

    @property
    def num_prompts(self) -> int:
        return len(self.samples)

    @property
    def completed(self) -> int:
        return sum(sample.completed for sample in self.samples)

    @property
    def failed(self) -> int:
        return self.num_prompts - self.completed


def summarise(
    samples: Iterable[RequestSample],
    duration_s: float,
    meta: Meta,
    percentiles: Sequence[float] = PERCENTILES,
    interrupted: str = "",
) -> Summary:
    """Latencies, token totals and throughput count completed requests only."""
    every = tuple(samples)
    good = [sample for sample in every if sample.completed]
    tokens_in = sum(sample.input_tokens for sample in good)
    tokens_out = sum(sample.output_tokens for sample in good)
    return Summary(
        meta=meta,
        samples=every,
        duration_s=duration_s,
        interrupted=interrupted,
        total_input_tokens=tokens_in,
        total_output_tokens=tokens_out,
        request_throughput=rate(len(good), duration_s),
        output_throughput=rate(tokens_out, duration_s),
        total_token_throughput=rate(tokens_in + tokens_out, duration_s),
        ttft=describe((sample.ttft_s for sample in good), percentiles),
        tpot=describe((sample.tpot_s for sample in good), percentiles),
        itl=describe((gap for sample in good for gap in sample.itls_s), percentiles),
        e2el=describe((sample.e2el_s for sample in good), percentiles),
    )


def rate(count: int, duration_s: float) -> float | None:
    """None when there was no time to speak of: a ratio that is not finite is no measurement."""
    per_second = count / duration_s if duration_s > 0 else math.inf
    return per_second if math.isfinite(per_second) else None


def describe(seconds: Iterable[float | None], percentiles: Sequence[float]) -> Distribution:
    values = sorted(second * 1000.0 for second in seconds if second is not None)
    if not values:
        return Distribution(0, None, None, None, MappingProxyType(dict.fromkeys(percentiles)))
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / len(values)
    return Distribution(
        count=len(values),
        mean=mean,
        median=percentile(values, 50),
        std=math.sqrt(variance),
        percentiles=MappingProxyType({q: percentile(values, q) for q in percentiles}),
    )


def percentile(ordered: Sequence[float], q: float) -> float:
    """numpy's default method ("linear"): interpolate between the closest ranks of sorted values."""
    if not ordered or not 0 <= q <= 100:
        raise ValueError(f"no percentile {q} of {len(ordered)} values")
    rank = (len(ordered) - 1) * q / 100
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    share, step = rank - low, ordered[high] - ordered[low]
    # numpy counts from the nearer end: this keeps the result inside [low, high] and monotonic in q
    return ordered[low] + step * share if share < 0.5 else ordered[high] - step * (1 - share)


def distinct_errors(errors: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Each different error with its count, in the order of first appearance."""
    return tuple(Counter(error for error in errors if error).items())
