"""Errors that come under status 200, and streams that break off."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from .cluster import cluster, until
from .engines import FakeDecoder, FakeEngine, event, streaming

BOTH = ["lmcache", "nixl"]


def ended_in_error(text: str = "") -> dict[str, Any]:
    return {
        "choices": [{"index": 0, "text": text, "finish_reason": "error"}],
        "usage": {"completion_tokens": 0},
    }


async def poisoned(engine: FakeEngine, request: Any, body: Any) -> Any:
    """Fails whatever needs more than one token, so that drains succeed."""
    if body["max_tokens"] == 1:
        return await engine.generate(request, body)
    if body.get("stream"):
        return await streaming(event(ended_in_error()), b"data: [DONE]\n\n")(engine, request, body)
    return web.json_response(ended_in_error())


@pytest.mark.parametrize("connector", BOTH)
async def test_200_with_an_error_inside_is_a_502_and_counts_against_the_decoder(connector: str) -> None:
    """It leaves rotation after three in a row."""
    async with cluster(connector=connector, health={"cooldown_s": 30}) as c:
        c.decoders[0].behave = poisoned
        for _ in range(3):
            reply = await c.complete([1, 2], max_tokens=3)
            assert reply.status == 502
            assert reply.json["error"]["type"] == "upstream_error"
            await until(lambda: not c.gateway.background)
        assert (await c.complete([1, 2], max_tokens=3)).status == 503
        assert c.metric("instance_failures_total", instance="decoder-0") == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_kv_behind_an_error_is_drained_since_nobody_may_have_fetched_it(stream: bool) -> None:
    async with cluster() as c:
        c.decoders[0].behave = poisoned
        await c.complete([1, 2], max_tokens=3, stream=stream)
        await until(lambda: not c.left_behind())
        assert c.metric("drains_total", reason="failed") == 1


@pytest.mark.parametrize("connector", BOTH)
@pytest.mark.parametrize(
    "broken",
    [
        event(ended_in_error()),
        event({"error": {"message": "KV load failed at 10.0.0.12", "code": 500}}),
        event({"object": "error", "message": "x"}),
    ],
)
async def test_an_error_in_a_stream_is_an_error_event_without_done(connector: str, broken: bytes) -> None:
    good = event({"id": "x", "choices": [{"index": 0, "text": "good", "finish_reason": None}]})
    async with cluster(connector=connector) as c:
        c.decoders[0].behave = fetching(streaming(good, broken, b"data: [DONE]\n\n"))
        reply = await c.complete([1, 2], max_tokens=3, stream=True)
        assert c.metric("requests_total", endpoint="completions", outcome="upstream_error") == 1
    assert reply.status == 200
    assert len(reply.events) == 2
    assert (
        reply.chunks[-1]["error"]["message"] == "decoder decoder-0 reported an error while it was generating"
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stream_that_breaks_off_is_not_a_good_end(stream: bool) -> None:
    good = event({"id": "x", "choices": [{"index": 0, "text": "good", "finish_reason": None}]})
    async with cluster() as c:
        c.decoders[0].behave = fetching(streaming(good))
        reply = await c.complete([1, 2], max_tokens=3, stream=stream)
    if stream:
        assert "[DONE]" not in reply.events
        assert "broke the stream off" in reply.chunks[-1]["error"]["message"]
    else:
        assert reply.status == 502


def fetching(behave: Any) -> Any:
    async def fetch_first(engine: FakeEngine, request: Any, body: Any) -> Any:
        assert isinstance(engine, FakeDecoder)
        engine.fetch(body)
        return await behave(engine, request, body)

    return fetch_first
