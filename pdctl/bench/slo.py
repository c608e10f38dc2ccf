"""Summary + Slo -> Verdict: which share of the requests met every target, and was that enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pdctl.bench.stats import RequestSample, Summary, describe, rate

ITL_PERCENTILE = 99.0


@dataclass(frozen=True)
class Slo:
    """Targets; None is no target. `itl_p99_ms` bounds the pooled gaps, the others each single request."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    itl_p99_ms: float | None = None
    e2el_ms: float | None = None
    attainment: float = 0.9  # the share DistServe (OSDI 2024) asks of its requests

    def __post_init__(self) -> None:
        targets = (self.ttft_ms, self.tpot_ms, self.itl_p99_ms, self.e2el_ms)
        if all(target is None for target in targets):
            raise ValueError("an SLO needs at least one target")
        if not all(target is None or target > 0 for target in targets) or not 0 < self.attainment <= 1:
            raise ValueError("SLO targets are positive, and attainment is in (0, 1]")

    @property
    def per_request(self) -> Mapping[str, float]:
        named = {"ttft": self.ttft_ms, "tpot": self.tpot_ms, "e2el": self.e2el_ms}
        return MappingProxyType({name: target for name, target in named.items() if target is not None})


@dataclass(frozen=True)
class Verdict:
    slo: Slo
    met: bool
    attainment: float | None  # share of *all* requests, failed ones included, that met every target
    attainments: Mapping[str, float | None]  # the same for each target alone
    goodput: float | None  # requests/s that met every target
    itl_p99_ms: float | None
    missed: tuple[str, ...]  # one line for each target missed


def judge(summary: Summary, slo: Slo) -> Verdict:
    """A failed request misses every target; no requests at all is a miss."""
    good = sum(meets(sample, slo.per_request) for sample in summary.samples)
    share = _share(good, summary.num_prompts)
    shares = {
        name: _share(sum(meets(sample, {name: target}) for sample in summary.samples), summary.num_prompts)
        for name, target in slo.per_request.items()
    }
    itl_p99 = _pooled_itl_p99(summary)
    missed = (*_missed_share(slo, share), *_missed_itl(slo, itl_p99, summary))
    return Verdict(
        slo=slo,
        met=not missed,
        attainment=share,
        attainments=MappingProxyType(shares),
        goodput=rate(good, summary.duration_s),
        itl_p99_ms=itl_p99,
        missed=missed,
    )


def meets(sample: RequestSample, targets: Mapping[str, float]) -> bool:
    """A request of one token has no TPOT and so cannot miss it (vLLM's bench counts it as 0)."""
    if not sample.completed:
        return False
    seen = {"ttft": sample.ttft_s, "tpot": sample.tpot_s or 0.0, "e2el": sample.e2el_s}
    values = {name: seen[name] for name in targets}
    return all(value is not None and value * 1000.0 <= targets[name] for name, value in values.items())


def _share(good: int, total: int) -> float | None:
    return good / total if total else None


def _pooled_itl_p99(summary: Summary) -> float | None:
    gaps = (gap for sample in summary.samples if sample.completed for gap in sample.itls_s)
    return describe(gaps, (ITL_PERCENTILE,)).at(ITL_PERCENTILE)


def _missed_share(slo: Slo, share: float | None) -> tuple[str, ...]:
    if share is not None and share >= slo.attainment:
        return ()
    wanted = " and ".join(f"{name} <= {target:g} ms" for name, target in slo.per_request.items())
    reached = "none were sent" if share is None else f"{share:.1%} did"
    return (f"{slo.attainment:.1%} of the requests should {_verb(wanted)}; {reached}",)


def _verb(wanted: str) -> str:
    return f"have {wanted}" if wanted else "complete"


def _missed_itl(slo: Slo, itl_p99_ms: float | None, summary: Summary) -> tuple[str, ...]:
    if slo.itl_p99_ms is None or (itl_p99_ms is not None and itl_p99_ms <= slo.itl_p99_ms):
        return ()
    if itl_p99_ms is None:
        # single-token answers have no gaps; they cannot show that the target holds
        return (
            f"ITL p99 should be <= {slo.itl_p99_ms:g} ms; {summary.completed} answers had no gap to measure",
        )
    return (f"ITL p99 should be <= {slo.itl_p99_ms:g} ms; it was {itl_p99_ms:.1f} ms",)
