"""Runs of made samples, and a strategy for any of them."""

from __future__ import annotations

from hypothesis import strategies as st

from pdctl.bench.stats import Meta, RequestSample

META = Meta(
    date="20261130-120000",
    model_id="openai/gpt-oss-120b",
    max_concurrency=4,
    input_len=8,
    output_len=4,
    seed=7,
    simulated=False,
    client_path="direct",
)

seconds = st.floats(0, 1e4)
completed = st.builds(
    RequestSample,
    start_s=seconds,
    ttft_s=seconds,
    itls_s=st.lists(seconds, max_size=8).map(tuple),
    input_tokens=st.integers(0, 10_000),
    output_tokens=st.integers(1, 10_000),
)
failed = st.builds(
    RequestSample,
    start_s=st.none() | seconds,
    ttft_s=st.none() | seconds,
    itls_s=st.just(()),
    input_tokens=st.integers(0, 10_000),
    output_tokens=st.integers(0, 10),
    error=st.sampled_from(["HTTP 500: no", "cut off: interrupted"]),
)
runs = st.lists(completed | failed, max_size=20)


def ok(ttft=0.1, itls=(0.01, 0.02, 0.03), tokens=4, **more) -> RequestSample:
    return RequestSample(0.0, ttft, tuple(itls), 8, tokens, **more)


def bad(error="HTTP 500: no", ttft=None) -> RequestSample:
    return RequestSample(0.0, ttft, (), 8, 0, error=error)
