"""Aggregated mode: whatever the client sends goes to one server as it is."""

from __future__ import annotations

import asyncio

import pytest

from .cluster import cluster, until
from .engines import answering


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_gets_the_client_s_body_unchanged(path: str, stream: bool) -> None:
    async with cluster(0, 0, 1) as c:
        body = {"prompt": "a b", "n": 2, "echo": True, "max_tokens": 3, "stream": stream, "logprobs": 1}
        reply = await c.post(path, json=body)
        [received] = c.servers[0].generations()
    assert (reply.status, received.body, received.path) == (200, body, path)
    assert reply.headers["x-pdctl-server"] == "server-0"
    assert "t0 t1 t2" in (reply.streamed_text if stream else reply.text)


async def test_the_least_loaded_server_is_chosen() -> None:
    async with cluster(0, 0, 2) as c:
        c.servers[0].gap_s = c.servers[1].gap_s = 0.02
        long = [asyncio.create_task(c.complete(max_tokens=10**6, stream=True)) for _ in range(4)]
        await until(lambda: sum(len(server.generations()) for server in c.servers) == 4)
        assert [len(server.generations()) for server in c.servers] == [2, 2]
        for task in long:
            task.cancel()


async def test_a_failing_server_is_retried_elsewhere_and_a_refusal_is_not() -> None:
    async with cluster(0, 0, 2) as c:
        c.servers[1].behave = answering(500, "boom")
        assert [(await c.complete(max_tokens=2)).status for _ in range(2)] == [200, 200]
        c.servers[0].behave = c.servers[1].behave = answering(404, "no such model")
        reply = await c.complete(max_tokens=2)
    assert (reply.status, reply.json["error"]["message"]) == (404, "no such model")
