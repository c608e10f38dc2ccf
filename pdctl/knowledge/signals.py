"""What each version says about KV that a decoder took from elsewhere: a counter, or lines in its journal."""

from __future__ import annotations

from dataclasses import dataclass

from pdctl.knowledge.versions import at_least


@dataclass(frozen=True)
class Counter:
    """A counter on the decoder's /metrics, in tokens."""

    name: str


@dataclass(frozen=True)
class Lines:
    """Lines of the decoder's journal: the first group of `counts`, a number, is summed.

    Without a line that matches `speaks` nobody knows whether the engine would have said anything. They come
    within `patience_s`; every TP rank prints or adds up its own share.
    """

    text: str  # for people
    counts: str
    speaks: str
    patience_s: float
    unit: str = "tokens"


# vLLM pull request 26245, merged in October 2025 after 0.11.0 was released; 0.11.0 v1/metrics/loggers.py has
# no such counter, 0.32.0 has.
EXTERNAL_HITS = Counter("vllm:external_prefix_cache_hits_total")
EXTERNAL_HITS_SINCE = "0.11.1"

# LMCache 0.3.10, v1/cache_engine.py, retrieve(): one line per request and rank, before its first token; 0.5.6
# puts the request's id before it. The scheduler's lookup comes first, also when it finds nothing
# (integration/vllm/vllm_v1_adapter.py, get_num_new_matched_tokens).
LMCACHE_RETRIEVED = Lines(
    text="`Retrieved N out of M required tokens`",
    counts=r"\bRetrieved (\d+) out of \d+ required tokens",
    speaks=r"\bReqid: .*Total tokens \d+.*LMCache hit tokens: \d+",
    patience_s=5.0,
)

# vLLM 0.11.0, kv_connector/v1/metrics.py and nixl_connector.py: how many reads ended since the last such
# line, summed over the ranks (kv_connector/utils.py, KVOutputAggregator); no tokens. The line follows that of
# the throughput, which is printed every VLLM_LOG_STATS_INTERVAL, 10 s, while there is traffic
# (v1/metrics/loggers.py).
NIXL_TRANSFERS = Lines(
    text="`KV Transfer metrics: num_successful_transfers=N`",
    counts=r"\bKV Transfer metrics: .*\b[Nn]um[_ ]successful[_ ]transfers=(\d+)",
    speaks=r"\bEngine \d+: Avg prompt throughput: ",
    patience_s=25.0,
    unit="transfers",
)

LINES: dict[str, Lines] = {"lmcache": LMCACHE_RETRIEVED, "nixl": NIXL_TRANSFERS}


def signals_of(vllm: str, connector: str) -> tuple[Counter | Lines, ...]:
    """What this version says, the most exact first."""
    counters = (EXTERNAL_HITS,) if at_least(vllm, EXTERNAL_HITS_SINCE) else ()
    return (*counters, LINES[connector])
