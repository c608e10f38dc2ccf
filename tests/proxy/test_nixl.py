"""The NIXL protocol: params pass through untouched, both legs get the client's own body."""

from __future__ import annotations

from typing import Any

import pytest

from .cluster import cluster


@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_prefiller_returns_goes_to_the_decoder_verbatim(stream: bool) -> None:
    async with cluster(connector="nixl") as c:
        reply = await c.complete("a b", max_tokens=4, stream=stream, temperature=0.5)
        [prefill], [decode] = c.prefillers[0].generations(), c.decoders[0].generations()
        params = c.prefillers[0].params
    assert reply.status == 200
    asked = prefill.body["kv_transfer_params"]
    assert (asked["do_remote_decode"], asked["do_remote_prefill"]) == (True, False)
    assert {asked[key] for key in ("remote_engine_id", "remote_block_ids", "remote_host", "remote_port")} == {
        None
    }
    expected = {"model": "m", "prompt": "a b", "max_tokens": 4, "stream": stream, "temperature": 0.5}
    assert decode.body == {**expected, "kv_transfer_params": params}
    assert prefill.headers["X-Request-Id"] == decode.headers["X-Request-Id"] == reply.headers["x-request-id"]
    assert c.prefillers[0].received == [prefill]  # no tokenizer needed


@pytest.mark.parametrize("params", [None, {}])
async def test_a_prefiller_that_returns_no_params_leaves_the_prompt_to_the_decoder(params: Any) -> None:
    async with cluster(connector="nixl") as c:
        c.prefillers[0].params = params
        c.prefillers[0].finish = "stop"
        assert (await c.complete("a b", max_tokens=4)).status == 200
        assert "kv_transfer_params" not in c.decoders[0].generations()[0].body


async def test_chat_is_capped_under_its_own_name_and_decoded_whole() -> None:
    async with cluster(connector="nixl", chat=True) as c:
        fields: dict[str, Any] = {
            "messages": [{"role": "user", "content": "hi"}],
            "max_completion_tokens": 256,
        }
        reply = await c.complete(path="/v1/chat/completions", **fields)
        [prefill], [decode] = c.prefillers[0].generations(), c.decoders[0].generations()
    assert reply.status == 200
    assert (prefill.path, decode.path) == ("/v1/chat/completions",) * 2
    assert (prefill.body["max_completion_tokens"], prefill.body["max_tokens"]) == (1, 1)
    assert decode.body["max_completion_tokens"] == 256
    assert "max_tokens" not in decode.body


async def test_chat_can_be_turned_off() -> None:
    async with cluster(connector="nixl") as c:
        reply = await c.complete(path="/v1/chat/completions", messages=[{"role": "user", "content": "hi"}])
    assert reply.status == 400


async def test_a_retried_decode_uses_the_same_kv() -> None:
    async with cluster(1, 2, connector="nixl", health={"interval_s": 30}) as c:
        await c.decoders[0].stop()
        await c.decoders[1].stop()
        await c.decoders[1].start()
        replies = [await c.complete("a b", max_tokens=4) for _ in range(2)]
        assert [reply.status for reply in replies] == [200, 200]
        assert len(c.prefillers[0].generations()) == 2


async def test_requests_take_turns_on_equal_instances() -> None:
    async with cluster(3, 3, connector="nixl") as c:
        replies = [await c.complete("a b", max_tokens=2) for _ in range(6)]
        for role in ("prefiller", "decoder"):
            names = [reply.headers[f"x-pdctl-{role}"] for reply in replies]
            assert sorted(names) == sorted([f"{role}-{i}" for i in range(3)] * 2)
