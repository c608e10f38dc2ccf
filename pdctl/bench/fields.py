"""Summary -> the result record, under the field names of vLLM's own bench, plus one `pdctl` object."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pdctl.bench.counters import PromptCheck
from pdctl.bench.findings import Finding
from pdctl.bench.slo import Verdict
from pdctl.bench.stats import ITL_DEFINITION, Distribution, RequestSample, Summary

SCHEMA = 1

LOOP = (
    "closed loop: request rate inf with a concurrency cap, the next request is sent when one ends; "
    "a stress test, not a model of users"
)


def result_fields(
    summary: Summary,
    verdict: Verdict | None = None,
    findings: Sequence[Finding] = (),
    prompt_check: PromptCheck | None = None,
) -> dict[str, Any]:
    """Aggregates are milliseconds, per-request lists seconds, as vLLM 0.33 writes them; absent is null."""
    meta = summary.meta
    return {
        "date": meta.date,
        "endpoint_type": meta.endpoint_type,
        "backend": meta.backend,
        "label": meta.label,
        "model_id": meta.model_id,
        "tokenizer_id": meta.tokenizer_id,
        "num_prompts": summary.num_prompts,
        "request_rate": "inf" if meta.request_rate is None else meta.request_rate,
        "burstiness": meta.burstiness,
        "max_concurrency": meta.max_concurrency,
        "duration": summary.duration_s,
        "completed": summary.completed,
        "failed": summary.failed,
        "total_input_tokens": summary.total_input_tokens,
        "total_output_tokens": summary.total_output_tokens,
        "request_throughput": summary.request_throughput,
        "request_goodput": verdict.goodput if verdict else None,
        "output_throughput": summary.output_throughput,
        "total_token_throughput": summary.total_token_throughput,
        **_metric("ttft", summary.ttft),
        **_metric("tpot", summary.tpot),
        **_metric("itl", summary.itl),
        **_metric("e2el", summary.e2el),
        **_lists(summary.samples),
        "pdctl": _own(summary, verdict, findings, prompt_check),
    }


def result_name(summary: Summary) -> str:
    """The default file name of vLLM's bench, made safe for any label and model name."""
    meta = summary.meta
    rate = "inf" if meta.request_rate is None else f"{meta.request_rate:g}"
    model = meta.model_id.rstrip("/").rsplit("/", 1)[-1]
    stem = f"{meta.label or meta.backend}-{rate}qps-concurrency{meta.max_concurrency}-{model}-{meta.date}"
    return re.sub(r"[^\w.=+-]+", "_", stem, flags=re.ASCII).lstrip(".")[:200] + ".json"


def _metric(name: str, values: Distribution) -> dict[str, float | None]:
    points = {f"p{q:g}_{name}_ms": value for q, value in values.percentiles.items()}
    spread = {
        f"mean_{name}_ms": values.mean,
        f"median_{name}_ms": values.median,
        f"std_{name}_ms": values.std,
    }
    return spread | points


def _lists(samples: Sequence[RequestSample]) -> dict[str, list[Any]]:
    lists: dict[str, list[Any]] = {
        "input_lens": [sample.input_tokens for sample in samples],
        # 0 for a failed request, as vLLM writes it: the list then adds up to total_output_tokens
        "output_lens": [sample.output_tokens if sample.completed else 0 for sample in samples],
        "ttfts": [sample.ttft_s for sample in samples],
        "itls": [list(sample.itls_s) for sample in samples],
        "errors": [sample.error for sample in samples],
        "start_times": [sample.start_s for sample in samples],
    }
    if any(sample.text is not None for sample in samples):
        lists["generated_texts"] = [sample.text or "" for sample in samples]
    return lists


def _own(
    summary: Summary,
    verdict: Verdict | None,
    findings: Sequence[Finding],
    prompt_check: PromptCheck | None,
) -> dict[str, Any]:
    meta = summary.meta
    return {
        "schema": SCHEMA,
        "simulated": meta.simulated,
        "versions": dict(meta.versions),
        "spec_digest": meta.spec_digest,
        "client_path": meta.client_path,
        "seed": meta.seed,
        "prompt": {"kind": meta.prompt_kind, "input_len": meta.input_len, "output_len": meta.output_len},
        "ignore_eos": meta.ignore_eos,
        "first_token_from_prefiller": meta.first_token_from_prefiller,
        "loop": LOOP,
        "itl_definition": ITL_DEFINITION,
        "percentile_method": "linear",
        "interrupted": summary.interrupted or None,
        "slo": _slo(verdict),
        "prompt_tokens": asdict(prompt_check) if prompt_check else None,
        "findings": [{"level": finding.level, "text": finding.text} for finding in findings],
    }


def _slo(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {
        "targets": {name: target for name, target in asdict(verdict.slo).items() if target is not None},
        "met": verdict.met,
        "attainment": verdict.attainment,
        "attainments": dict(verdict.attainments),
        "itl_p99_ms": verdict.itl_p99_ms,
        "missed": list(verdict.missed),
    }
