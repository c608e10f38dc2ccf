"""The metrics there are: the names of vLLM 0.11.0 to 0.33.0 and LMCache 0.3.10 to 0.5.6."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Counter(NamedTuple):
    """A counter; its name gets `_total` in the exposition."""

    help: str
    label: str = ""
    values: tuple[str, ...] = ()


class Histogram(NamedTuple):
    """A histogram and its bucket bounds."""

    help: str
    bounds: tuple[float, ...]


FAMILIES = ("lmcache:", "vllm:nixl_")
"""Metrics that are there only with the connector they belong to."""

# How names begin that vLLM 0.11.0 lacks and 0.32.0 has (v1/metrics/loggers.py, nixl connector); the counters
# of external hits came with pull request 26245, after 0.11.0; the others are taken to have come with them.
SINCE: Mapping[str, tuple[int, ...]] = {
    "vllm:external_prefix_cache_": (0, 11, 1),
    "vllm:prompt_tokens_by_source": (0, 11, 1),
    "vllm:nixl_": (0, 11, 1),
}

COUNTERS: Mapping[str, Counter] = {
    "vllm:prompt_tokens": Counter("Prompt tokens processed."),
    "vllm:generation_tokens": Counter("Generation tokens processed."),
    "vllm:prompt_tokens_by_source": Counter(
        "Prompt tokens by where their KV came from.",
        "source",
        ("local_compute", "local_cache_hit", "external_kv_transfer"),
    ),
    "vllm:prefix_cache_queries": Counter("Prefix cache queries, in tokens."),
    "vllm:prefix_cache_hits": Counter("Prefix cache hits, in tokens."),
    "vllm:external_prefix_cache_queries": Counter("Tokens asked of the KV connector."),
    "vllm:external_prefix_cache_hits": Counter("Tokens that the KV connector had."),
    "vllm:num_preemptions": Counter("Preemptions; the simulator makes none."),
    "vllm:request_success": Counter(
        "Finished requests.", "finished_reason", ("stop", "length", "abort", "error")
    ),
    "vllm:nixl_num_failed_transfers": Counter("Failed NIXL KV transfers."),
    "vllm:nixl_num_kv_expired_reqs": Counter("Requests whose KV nobody read in time."),
    "lmcache:num_store_requests": Counter("Store requests."),
    "lmcache:num_stored_tokens": Counter("Tokens stored."),
    "lmcache:num_retrieve_requests": Counter("Retrieve requests."),
    "lmcache:num_requested_tokens": Counter("Tokens requested from LMCache."),
    "lmcache:num_hit_tokens": Counter("Tokens retrieved from LMCache."),
    "lmcache:num_lookup_requests": Counter("Lookup requests."),
    "lmcache:num_lookup_tokens": Counter("Tokens looked up."),
    "lmcache:num_lookup_hits": Counter("Tokens found by lookups."),
    "lmcache:lookup_0_hit_requests": Counter("Lookups that found nothing."),
}

_FIRST_TOKEN = (
    *(
        0.001,
        0.005,
        0.01,
        0.02,
        0.04,
        0.06,
        0.08,
        0.1,
        0.25,
        0.5,
        0.75,
        1.0,
        2.5,
        5.0,
        7.5,
        10.0,
        20.0,
        40.0,
        80.0,
    ),
    *(160.0, 640.0, 2560.0),
)
_GAP = (
    *(
        0.01,
        0.025,
        0.05,
        0.075,
        0.1,
        0.15,
        0.2,
        0.3,
        0.4,
        0.5,
        0.75,
        1.0,
        2.5,
        5.0,
        7.5,
        10.0,
        20.0,
        40.0,
        80.0,
    ),
)
_REQUEST = (
    *(
        0.3,
        0.5,
        0.8,
        1.0,
        1.5,
        2.0,
        2.5,
        5.0,
        10.0,
        15.0,
        20.0,
        30.0,
        40.0,
        50.0,
        60.0,
        120.0,
        240.0,
        480.0,
        960.0,
    ),
    *(1920.0, 7680.0),
)
_TOKENS = tuple(float(step * 10**power) for power in range(6) for step in (1, 2, 5))
_TRANSFER = (0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)
_BYTES = tuple(float(2**power) for power in range(10, 40, 2))

HISTOGRAMS: Mapping[str, Histogram] = {
    "vllm:time_to_first_token_seconds": Histogram("Arrival to first token.", _FIRST_TOKEN),
    "vllm:inter_token_latency_seconds": Histogram("Gaps between tokens.", _GAP),
    "vllm:request_time_per_output_token_seconds": Histogram("Mean gap of a request.", _GAP),
    "vllm:e2e_request_latency_seconds": Histogram("Arrival to last token.", _REQUEST),
    "vllm:request_queue_time_seconds": Histogram("Time spent waiting.", _REQUEST),
    "vllm:request_prefill_time_seconds": Histogram("Time spent in prefill.", _REQUEST),
    "vllm:request_decode_time_seconds": Histogram("Time spent in decode.", _REQUEST),
    "vllm:request_inference_time_seconds": Histogram("Time spent running.", _REQUEST),
    "vllm:request_prompt_tokens": Histogram("Prompt tokens of a request.", _TOKENS),
    "vllm:request_generation_tokens": Histogram("Generated tokens of a request.", _TOKENS),
    "vllm:iteration_tokens_total": Histogram("Tokens of one engine step.", _TOKENS),
    "vllm:nixl_xfer_time_seconds": Histogram("Duration of NIXL KV transfers.", _TRANSFER),
    "vllm:nixl_bytes_transferred": Histogram("Bytes of NIXL KV transfers.", _BYTES),
    "lmcache:time_to_store": Histogram("Duration of stores.", _TRANSFER),
    "lmcache:time_to_retrieve": Histogram("Duration of retrieves.", _TRANSFER),
}
