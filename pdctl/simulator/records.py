"""What happens to a sequence -> vLLM's counters and histograms."""

from __future__ import annotations

import time

from .metrics import Metrics
from .sequence import Sequence


def record_prefill(metrics: Metrics, sequence: Sequence, *, has_connector: bool) -> None:
    """The prompt is computed or loaded."""
    prompt = len(sequence.request.prompt)
    metrics.count("vllm:prompt_tokens", prompt)
    by_source = {
        "local_cache_hit": sequence.local,
        "external_kv_transfer": sequence.external,
        "local_compute": prompt - sequence.local - sequence.external,
    }
    for source, tokens in by_source.items():
        metrics.count("vllm:prompt_tokens_by_source", tokens, source)
    metrics.count("vllm:prefix_cache_queries", prompt)
    metrics.count("vllm:prefix_cache_hits", sequence.local)
    if has_connector:
        metrics.count("vllm:external_prefix_cache_queries", prompt - sequence.local)
        metrics.count("vllm:external_prefix_cache_hits", sequence.external)
    metrics.observe("vllm:request_queue_time_seconds", sequence.started - sequence.arrived)
    sequence.prefilled = time.monotonic()
    metrics.observe("vllm:request_prefill_time_seconds", sequence.prefilled - sequence.started)


def record_token(metrics: Metrics, sequence: Sequence) -> None:
    """One more token."""
    now = time.monotonic()
    metrics.count("vllm:generation_tokens")
    if len(sequence.tokens) == 1:
        metrics.observe("vllm:time_to_first_token_seconds", now - sequence.arrived)
    else:
        metrics.observe("vllm:inter_token_latency_seconds", now - sequence.last_token)
    sequence.last_token = now


def record_finish(metrics: Metrics, sequence: Sequence) -> None:
    """The request left the engine."""
    metrics.count("vllm:request_success", 1, str(sequence.finish))
    made = len(sequence.tokens)
    if not made:
        return
    metrics.observe("vllm:request_prompt_tokens", len(sequence.request.prompt))
    metrics.observe("vllm:request_generation_tokens", made)
    metrics.observe("vllm:e2e_request_latency_seconds", sequence.last_token - sequence.arrived)
    metrics.observe("vllm:request_inference_time_seconds", sequence.last_token - sequence.started)
    decode = sequence.last_token - sequence.prefilled
    metrics.observe("vllm:request_decode_time_seconds", decode)
    if made > 1:
        metrics.observe("vllm:request_time_per_output_token_seconds", decode / (made - 1))
