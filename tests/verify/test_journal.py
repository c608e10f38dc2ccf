"""Journals of real engines -> what they say came from elsewhere."""

from __future__ import annotations

import pytest

from pdctl.knowledge.signals import (
    EXTERNAL_HITS,
    LMCACHE_RETRIEVED,
    NIXL_TRANSFERS,
    Counter,
    Lines,
    signals_of,
)
from pdctl.verify.journal import counted

# The formats of LMCache 0.3.10 (logging.py, vllm_v1_adapter.py, cache_engine.py), coloured as it prints them.
GREEN, PLAIN = "\x1b[32;20m[2026-01-02 03:04:05,678] LMCache INFO:\x1b[0m ", "\x1b[3m(x.py:1:lmcache)\x1b[0m"
WORKER = "\x1b[1;36m(Worker_TP{} pid=71)\x1b[0;0m "


def lookup(total: int, hit: int, load: int) -> str:
    line = f"Reqid: cmpl-8a-0, Total tokens {total}, LMCache hit tokens: {hit}, need to load: {load}"
    return f"\x1b[1;36m(EngineCore_DP0 pid=70)\x1b[0;0m {GREEN}{line} {PLAIN}\n"


def retrieved(got: int, of: int, rank: int = 0) -> str:
    line = (
        f"Retrieved {got} out of {of} required tokens (from {of} total tokens)."
        " size: 0.0029 gb, cost 1.2 ms, throughput: 2.4 GB/s;"
    )
    return f"{WORKER.format(rank)}{GREEN}{line} {PLAIN}\n"


NEWER = "[req_id=cmpl-8a-0] Retrieved 256 out of 256 required tokens (from 256 total tokens). size: 0.1 gb;\n"
# vLLM 0.11.0 v1/metrics/loggers.py and v1/core/sched.
STATS = (
    "(APIServer pid=9) INFO 01-02 03:04:05 [loggers.py:127] Engine 000: Avg prompt throughput: 30.1 tokens/s,"
    " Avg generation throughput: 3.2 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%\n"
)
NIXL = (
    "(APIServer pid=9) INFO 01-02 03:04:05 [metrics.py:100] KV Transfer metrics: num_successful_transfers=6\n"
)
NIXL_NEWER = "INFO KV Transfer metrics: Num successful transfers=2, Avg xfer time (ms)=1.5, P90 xfer time=3\n"
OTHER = 'INFO: 10.0.0.1:4242 - "POST /v1/completions HTTP/1.1" 200 OK\n'


@pytest.mark.parametrize(
    ("lines", "text", "found"),
    [
        (LMCACHE_RETRIEVED, lookup(41, 40, 40) + retrieved(40, 40), 40),
        (LMCACHE_RETRIEVED, lookup(41, 40, 40) + retrieved(40, 40, 0) + OTHER + retrieved(40, 40, 1), 80),
        (LMCACHE_RETRIEVED, retrieved(40, 40) + lookup(131, 130, 130) + retrieved(128, 130), 168),
        (LMCACHE_RETRIEVED, lookup(41, 0, 0) + OTHER, 0),
        (LMCACHE_RETRIEVED, NEWER, 256),
        (LMCACHE_RETRIEVED, OTHER, None),
        (LMCACHE_RETRIEVED, "", None),
        (NIXL_TRANSFERS, STATS + NIXL + OTHER + STATS + NIXL, 12),
        (NIXL_TRANSFERS, NIXL_NEWER, 2),
        (NIXL_TRANSFERS, STATS, 0),
        (NIXL_TRANSFERS, OTHER, None),
    ],
)
def test_what_a_journal_says(lines: Lines, text: str, found: int | None) -> None:
    assert counted(text, lines) == found


@pytest.mark.parametrize(
    ("vllm", "connector", "signals"),
    [
        ("0.11.0", "lmcache", (LMCACHE_RETRIEVED,)),
        ("0.11.0", "nixl", (NIXL_TRANSFERS,)),
        ("0.32.0+cpu", "lmcache", (EXTERNAL_HITS, LMCACHE_RETRIEVED)),
        ("0.33.0", "nixl", (EXTERNAL_HITS, NIXL_TRANSFERS)),
    ],
)
def test_a_counter_comes_first_where_the_version_has_it(
    vllm: str, connector: str, signals: tuple[Counter | Lines, ...]
) -> None:
    assert signals_of(vllm, connector) == signals
