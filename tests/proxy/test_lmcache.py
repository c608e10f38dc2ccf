"""The LMCache protocol: what each leg is sent, when the decoder is asked, what the client sees."""

from __future__ import annotations

import asyncio
from typing import Any

import msgpack
import pytest

from .cluster import cluster, until
from .engines import answering, event, streaming

LEGS = ["original", "append-first-token"]


@pytest.mark.parametrize("stream", [False, True])
async def test_original_leg_sends_the_client_s_own_prompt_and_limit_to_the_decoder(stream: bool) -> None:
    async with cluster() as c:
        reply = await c.complete("a b c", max_tokens=4, stream=stream, temperature=0)
        [prefill], [decode] = c.prefillers[0].generations(), c.decoders[0].generations()
    assert reply.status == 200
    assert decode.body["prompt"] == "a b c"
    assert decode.body["max_tokens"] == 4
    assert "kv_transfer_params" not in decode.body
    assert (prefill.body["prompt"], prefill.body["max_tokens"], prefill.body["stream"]) == ("a b c", 1, False)
    text = reply.streamed_text if stream else reply.json["choices"][0]["text"]
    assert text == " t0 t1 t2 t3"
    if not stream:
        assert reply.json["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


@pytest.mark.parametrize("stream", [False, True])
async def test_append_leg_goes_on_behind_the_prefill_s_token(stream: bool) -> None:
    async with cluster(decode_leg="append-first-token") as c:
        reply = await c.complete("a b c", max_tokens=4, min_tokens=3, stream=stream)
        [prefill], [decode] = c.prefillers[0].generations(), c.decoders[0].generations()
    ids = [97, 98, 99]
    assert prefill.body["prompt"] == ids
    assert prefill.body["min_tokens"] == 1
    assert decode.body["prompt"] == [*ids, 77]
    assert (decode.body["max_tokens"], decode.body["min_tokens"]) == (3, 2)
    text = reply.streamed_text if stream else reply.json["choices"][0]["text"]
    assert text == " first t0 t1 t2"
    if not stream:
        assert reply.json["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


async def test_the_prefiller_is_told_the_rank_ports_of_the_chosen_decoder() -> None:
    """A list per decoder, one port per rank, and as many notices as ranks."""
    async with cluster(decoders=2, tp=2) as c:
        replies = await asyncio.gather(*(c.complete(f"p{i} x", max_tokens=2) for i in range(8)))
        specs = [item.body["kv_transfer_params"]["disagg_spec"] for item in c.prefillers[0].generations()]
        served = [reply.headers["x-pdctl-decoder"] for reply in replies]
    assert all(reply.status == 200 for reply in replies)
    assert {tuple(spec["receiver_init_port"]) for spec in specs} == {(7300, 7301), (7302, 7303)}
    assert {tuple(spec["receiver_alloc_port"]) for spec in specs} == {(7400, 7401), (7402, 7403)}
    assert len({spec["req_id"] for spec in specs}) == 8
    assert sorted(set(served)) == ["decoder-0", "decoder-1"]


@pytest.mark.parametrize("first", [False, True])
async def test_the_decoder_is_asked_only_after_every_rank_has_given_notice(first: bool) -> None:
    async with cluster(tp=2) as c:
        c.prefillers[0].notices_first = first
        c.prefillers[0].ranks_silent = 1
        request = asyncio.create_task(c.complete("a b", max_tokens=2))
        await until(lambda: c.metric("notifications_total", kind="counted") == 1)
        assert c.decoders[0].generations() == []
        spec = c.prefillers[0].generations()[0].body["kv_transfer_params"]["disagg_spec"]
        await c.prefillers[0].send(msgpack.packb({"type": "ProxyNotif", "req_id": spec["req_id"]}))
        assert (await request).status == 200


async def test_stale_foreign_and_broken_notices_release_nobody() -> None:
    async with cluster(limits={"notification_s": 5}) as c:
        prefiller = c.prefillers[0]
        prefiller.ranks_silent = 1
        request = asyncio.create_task(c.complete("a b", max_tokens=2))
        await until(prefiller.generations)
        right = prefiller.generations()[0].body["kv_transfer_params"]["disagg_spec"]["req_id"]
        wrong: list[Any] = [
            msgpack.packb({"type": "ProxyNotif", "req_id": "17"}),
            msgpack.packb({"type": "CancelNotif", "req_id": right}),
            msgpack.packb({"type": "ProxyNotif", "req_id": 17}),
            msgpack.packb([right]),
            b"",
            b"\xc1",
            b"\x82\xa4type",
            b"\xdf\xff\xff\xff\xff",
            b"\x91" * 5000,
        ]
        for payload in wrong:
            await prefiller.send(payload)
        await until(lambda: c.metric("notifications_total", kind="undecodable") == len(wrong) - 1)
        assert c.metric("notifications_total", kind="unknown") == 1
        assert not request.done()
        await prefiller.send(msgpack.packb({"type": "ProxyNotif", "req_id": right}))
        assert (await request).status == 200


@pytest.mark.parametrize("leg", LEGS)
@pytest.mark.parametrize("stream", [False, True])
async def test_one_token_is_answered_and_the_kv_is_fetched(leg: str, stream: bool) -> None:
    async with cluster(decode_leg=leg) as c:
        options = {"stream_options": {"include_usage": True}} if stream else {}
        reply = await c.complete("a b c", max_tokens=1, stream=stream, **options)
        await until(lambda: not c.left_behind())
        [decode] = c.decoders[0].generations()
    assert decode.body["max_tokens"] == 1
    usage = reply.chunks[-1]["usage"] if stream else reply.json["usage"]
    assert usage == {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    text = reply.streamed_text if stream else reply.json["choices"][0]["text"]
    assert text == (" t0" if leg == "original" else " first")
    assert "kv_transfer_params" not in reply.text
    if stream:
        assert reply.events[-1] == "[DONE]"
        assert reply.chunks[-2]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prefill_that_ends_at_once_is_the_answer_and_the_decoder_is_drained(stream: bool) -> None:
    async with cluster(decode_leg="append-first-token") as c:
        c.prefillers[0].finish = "stop"
        reply = await c.complete("a b c", max_tokens=50, stream=stream)
        await until(c.decoders[0].generations)
        [drain] = c.decoders[0].generations()
    assert (drain.body["prompt"], drain.body["max_tokens"], drain.body["stream"]) == (
        [97, 98, 99, 77],
        1,
        False,
    )
    choice = (reply.chunks[0] if stream else reply.json)["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("", "stop")
    assert c.metric("drains_total", reason="answered") == 1


async def test_a_prefill_that_ends_at_once_changes_nothing_on_the_original_leg() -> None:
    async with cluster() as c:
        c.prefillers[0].finish = "stop"
        reply = await c.complete("a b c", max_tokens=3)
    assert reply.json["choices"][0]["text"] == " t0 t1 t2"


@pytest.mark.parametrize("leg", LEGS)
async def test_usage_in_the_stream_counts_the_client_s_prompt(leg: str) -> None:
    async with cluster(decode_leg=leg) as c:
        options = {"include_usage": True}
        reply = await c.complete("x y", max_tokens=16, stream=True, stream_options=options)
        [prefill], [decode] = c.prefillers[0].generations(), c.decoders[0].generations()
    assert prefill.body["stream"] is False
    assert "stream_options" not in prefill.body
    assert (decode.body["stream"], decode.body["stream_options"]) == (True, options)
    assert reply.chunks[-1]["usage"] == {"prompt_tokens": 2, "completion_tokens": 16, "total_tokens": 18}
    assert reply.events[-1] == "[DONE]"
    assert len({chunk["id"] for chunk in reply.chunks}) == 1


@pytest.mark.parametrize("leg", LEGS)
@pytest.mark.parametrize("fields", [{}, {"max_tokens": None}])
async def test_without_a_limit_none_is_invented(leg: str, fields: dict[str, Any]) -> None:
    async with cluster(decode_leg=leg) as c:
        reply = await c.complete("Explain llamas", **fields)
        [prefill], [decode] = c.prefillers[0].generations(), c.decoders[0].generations()
    assert reply.status == 200
    assert prefill.body["max_tokens"] == 1
    assert decode.body.get("max_tokens") is None


@pytest.mark.parametrize("leg", LEGS)
@pytest.mark.parametrize("limit", [0, -3])
async def test_an_impossible_limit_is_the_engine_s_to_refuse(leg: str, limit: int) -> None:
    """And no KV is moved for it."""
    async with cluster(decode_leg=leg) as c:
        reply = await c.complete("a", max_tokens=limit)
        assert c.decoders[0].received == []
    assert (reply.status, reply.json["error"]["message"]) == (400, "max_tokens must be at least 1")


async def test_both_limits_are_capped_on_the_prefill_and_lowered_on_the_append_leg() -> None:
    async with cluster(decode_leg="append-first-token") as c:
        await c.complete("a b", max_tokens=9, max_completion_tokens=6)
        [prefill], [decode] = c.prefillers[0].generations(), c.decoders[0].generations()
    assert (prefill.body["max_tokens"], prefill.body["max_completion_tokens"]) == (1, 1)
    assert (decode.body["max_tokens"], decode.body["max_completion_tokens"]) == (8, 5)


async def test_token_ids_need_no_tokenizer_and_a_list_of_one_prompt_is_that_prompt() -> None:
    async with cluster() as c:
        for prompt in ([5, 6, 7], [[5, 6, 7]], ["a b"]):
            assert (await c.complete(prompt, max_tokens=2)).status == 200
        prompts = [item.body["prompt"] for item in c.decoders[0].generations()]
        tokenized = [item for item in c.prefillers[0].received if item.path == "/tokenize"]
    assert prompts == [[5, 6, 7], [5, 6, 7], "a b"]
    assert len(tokenized) == 1


async def test_an_engine_s_refusal_after_the_kv_arrived_leaves_no_kv() -> None:
    """E.g. prompt + max_tokens above the context: the prefiller, asked for one token, could not know."""
    async with cluster() as c:
        decoder = c.decoders[0]

        async def refuse_long(engine: Any, request: Any, body: Any) -> Any:
            if body["max_tokens"] > 1:
                return await answering(400, "maximum context length is 10")(engine, request, body)
            return await decoder.generate(request, body)

        decoder.behave = refuse_long
        reply = await c.complete("a b", max_tokens=99)
        await until(lambda: not c.left_behind())
    assert (reply.status, reply.json["error"]["message"]) == (400, "maximum context length is 10")
    assert c.metric("drains_total", reason="failed") == 1


async def test_logprobs_of_a_collected_answer_are_whole() -> None:
    async with cluster() as c:

        def chunk(text: str, value: float, end: str | None) -> bytes:
            logprobs = {
                "tokens": [text],
                "token_logprobs": [value],
                "top_logprobs": [{text: value}],
                "text_offset": [0],
            }
            return event(
                {
                    "id": "x",
                    "choices": [{"index": 0, "text": text, "logprobs": logprobs, "finish_reason": end}],
                }
            )

        c.decoders[0].behave = streaming(
            chunk("a", -1.0, None), chunk("b", -2.0, "stop"), b"data: [DONE]\n\n"
        )
        reply = await c.complete("a b", max_tokens=2, logprobs=1)
        c.decoders[0].kv.clear()
    choice = reply.json["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("ab", "stop")
    assert choice["logprobs"]["token_logprobs"] == [-1.0, -2.0]


async def test_authorization_goes_to_every_leg_and_ids_are_the_same_on_both() -> None:
    async with cluster() as c:
        headers = {"Authorization": "Bearer secret"}
        reply = await c.post("/v1/completions", json={"prompt": "a b", "max_tokens": 2}, headers=headers)
        legs = [*c.prefillers[0].received, *c.decoders[0].received]
    assert {item.headers.get("Authorization") for item in legs} == {"Bearer secret"}
    ids = [item.headers["X-Request-Id"] for item in legs if item.path != "/tokenize"]
    assert ids == [reply.headers["x-request-id"]] * 2
    assert (reply.headers["x-pdctl-prefiller"], reply.headers["x-pdctl-decoder"]) == (
        "prefiller-0",
        "decoder-0",
    )


async def test_chat_is_refused_with_the_reason() -> None:
    async with cluster() as c:
        reply = await c.complete(path="/v1/chat/completions", messages=[{"role": "user", "content": "hi"}])
        assert c.prefillers[0].received == []
    assert reply.status == 400
    assert "not proven" in reply.json["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_chat_that_was_turned_on_goes_to_both_legs_as_it_is(stream: bool) -> None:
    async with cluster(chat=True) as c:
        messages = [{"role": "user", "content": "hi there"}]
        reply = await c.complete(path="/v1/chat/completions", messages=messages, max_tokens=3, stream=stream)
        [decode] = c.decoders[0].generations()
    assert reply.status == 200
    assert decode.body == {"model": "m", "messages": messages, "max_tokens": 3, "stream": stream}
