"""What goes wrong on a leg, and what the client, the instance and the KV get for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from pdctl.proxy import transfer

from .cluster import cluster, until
from .engines import FakeEngine, answering, cut, hang

BOTH = ["lmcache", "nixl"]
TOO_LONG = "maximum context length is 131072"


@pytest.mark.parametrize("connector", BOTH)
@pytest.mark.parametrize("status", [400, 404, 422, 429])
async def test_a_prefiller_s_refusal_reaches_the_client_as_it_is(connector: str, status: int) -> None:
    """One attempt, no decode."""
    async with cluster(prefillers=2, connector=connector) as c:
        for prefiller in c.prefillers:
            prefiller.behave = answering(status, TOO_LONG, **{"Retry-After": "7"})
        reply = await c.complete(max_tokens=4)
        attempts = sum(len(prefiller.generations()) for prefiller in c.prefillers)
        assert c.decoders[0].received == []
    assert (reply.status, reply.json) == (status, {"error": {"message": TOO_LONG, "code": status}})
    assert reply.headers["Retry-After"] == "7"
    assert reply.headers["Content-Type"].startswith("application/json")
    assert attempts == 1


@pytest.mark.parametrize("dead", [False, True])
async def test_a_prefill_that_cannot_have_begun_gives_its_slots_back_at_once(dead: bool) -> None:
    async with cluster(limits={"notification_s": 30}) as c:
        c.prefillers[0].behave = answering(400, TOO_LONG)
        if dead:
            await c.prefillers[0].stop()
        assert (await c.complete([1, 2], max_tokens=4)).status == (502 if dead else 400)
        assert not c.left_behind()


async def test_no_prefiller_works_for_a_decoder_that_is_not_there() -> None:
    async with cluster(connector="nixl") as c:
        c.decoders[0].healthy = False
        await until(lambda: not c.gateway.fleet.available("decoder"))
        assert (await c.complete(max_tokens=3)).status == 503
        assert c.prefillers[0].received == []


@pytest.mark.parametrize("connector", BOTH)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_decoder_s_refusal_is_a_real_status_for_streams_too(connector: str, stream: bool) -> None:
    async with cluster(decoders=2, connector=connector, leaks_kv=True) as c:
        for decoder in c.decoders:
            decoder.behave = answering(400, TOO_LONG)
        reply = await c.complete(max_tokens=4, stream=stream)
        await until(lambda: not c.gateway.background)
        generations = [item for decoder in c.decoders for item in decoder.generations()]
    assert (reply.status, reply.json["error"]["message"]) == (400, TOO_LONG)
    assert len([item for item in generations if item.body["max_tokens"] != 1]) == 1


async def test_a_refusal_to_tokenize_is_the_answer_too() -> None:
    async with cluster() as c:
        reply = await c.complete({"not": "a prompt"}, max_tokens=4)
        assert c.prefillers[0].generations() == []
    assert (reply.status, reply.json["error"]["param"]) == (400, "prompt")


@pytest.mark.parametrize(("silent", "missing"), [(2, "missing ranks 0, 1"), (1, "missing 1 of ranks 0, 1")])
async def test_notices_that_never_come_end_in_504_with_the_missing_ranks(silent: int, missing: str) -> None:
    """What may have arrived for some ranks is fetched, its result dropped."""
    async with cluster(tp=2, limits={"notification_s": 0.1}, leaks_kv=silent == 2) as c:
        c.prefillers[0].ranks_silent = silent
        reply = await c.complete("hi", max_tokens=8)
        await until(lambda: not c.gateway.background)
        decodes = [item.body["max_tokens"] for item in c.decoders[0].generations()]
    assert reply.status == 504
    assert missing in reply.json["error"]["message"]
    assert "prefiller-0" in reply.json["error"]["message"]
    assert decodes == ([] if silent == 2 else [1])
    assert c.metric("notification_timeouts_total", decoder="decoder-0") == 1


async def test_a_late_notice_is_ignored() -> None:
    async with cluster(limits={"notification_s": 0.05}, leaks_kv=True) as c:
        c.prefillers[0].notice_delay_s = 0.15
        assert (await c.complete("hi", max_tokens=8)).status == 504
        await until(lambda: c.metric("notifications_total", kind="unknown") == 1)
        assert not c.left_behind().keys() - {"kv"}


@pytest.mark.parametrize("connector", BOTH)
@pytest.mark.parametrize("role", ["prefiller", "decoder"])
async def test_a_dead_instance_is_a_502_that_names_it_and_nothing_internal(connector: str, role: str) -> None:
    async with cluster(connector=connector, health={"interval_s": 30}, leaks_kv=True) as c:
        dead = c.prefillers[0] if role == "prefiller" else c.decoders[0]
        await dead.stop()
        reply = await c.complete([1, 2, 3], max_tokens=8)
        assert reply.status == 502
        assert reply.json["error"]["message"] == f"{role} {role}-0 cannot be reached"
        assert str(dead.port) not in reply.text
        assert c.gateway.in_flight == 0
        again = await c.complete([1, 2, 3], max_tokens=8)  # out of rotation at once
        assert (again.status, again.json["error"]["message"]) == (503, missing(role, connector))


def missing(role: str, connector: str) -> str:
    lmcache_decoder = role == "decoder" and connector == "lmcache"
    return "no healthy decoder that could hold this request" if lmcache_decoder else f"no healthy {role}"


@pytest.mark.parametrize("connector", BOTH)
@pytest.mark.parametrize("role", ["prefiller", "decoder"])
async def test_a_connection_that_is_cut_is_a_502(connector: str, role: str) -> None:
    async with cluster(connector=connector, leaks_kv=True) as c:
        (c.prefillers if role == "prefiller" else c.decoders)[0].behave = cut
        reply = await c.complete([1, 2, 3], max_tokens=8)
    assert (reply.status, reply.json["error"]["message"]) == (502, f"{role} {role}-0 broke the connection")


@pytest.mark.parametrize("connector", BOTH)
@pytest.mark.parametrize("role", ["prefiller", "decoder"])
@pytest.mark.parametrize("how", ["stopped", "cut", "500"])
async def test_one_retry_goes_to_another_healthy_instance(connector: str, role: str, how: str) -> None:
    """As long as no byte was sent."""
    async with cluster(2, 2, connector=connector, health={"interval_s": 30}, leaks_kv=True) as c:
        broken = (c.prefillers if role == "prefiller" else c.decoders)[1]
        if how == "stopped":
            await broken.stop()
        broken.behave = cut if how == "cut" else answering(500, "boom at 10.0.0.12")
        replies = [await c.complete([1, 2, 3], max_tokens=3, stream=True) for _ in range(2)]
        assert [reply.status for reply in replies] == [200, 200]
        assert {reply.streamed_text for reply in replies} == {" t0 t1 t2"}
        assert {reply.headers[f"x-pdctl-{role}"] for reply in replies} == {f"{role}-0"}
        assert c.metric("retries_total", role=role) == 1


async def test_a_second_failure_is_the_answer() -> None:
    async with cluster(3, 1) as c:
        for prefiller in c.prefillers:
            prefiller.behave = answering(500, "boom at 10.0.0.12")
        reply = await c.complete([1, 2, 3], max_tokens=3)
        attempts = sum(len(prefiller.generations()) for prefiller in c.prefillers)
    assert (reply.status, attempts) == (502, 2)
    assert "10.0.0.12" not in reply.text


@pytest.mark.parametrize("connector", BOTH)
@pytest.mark.parametrize("role", ["prefiller", "decoder"])
async def test_an_instance_that_never_answers_is_a_504_at_its_limit(connector: str, role: str) -> None:
    """And its connection is closed, so that the engine sees an abort."""
    limits = {"prefill_s": 0.2, "first_byte_s": 0.2}
    async with cluster(2, 2, connector=connector, limits=limits, leaks_kv=True) as c:
        members: list[Any] = c.prefillers if role == "prefiller" else c.decoders
        for member in members:
            member.behave = hang
        reply = await c.complete([1, 2, 3], max_tokens=3, stream=True)
        assert reply.status == 504
        assert f"{role} {role}-" in reply.json["error"]["message"]
        assert c.metric("retries_total", role=role) == 0
        await until(lambda: sum(member.cancelled for member in members) >= 1)


@pytest.mark.parametrize("connector", BOTH)
async def test_without_any_healthy_prefiller_the_answer_is_503_at_once(connector: str) -> None:
    async with cluster(2, 1, connector=connector) as c:
        for prefiller in c.prefillers:
            prefiller.healthy = False
        await until(lambda: not c.gateway.fleet.available("prefiller"))
        reply = await c.complete(max_tokens=3)
        assert (reply.status, reply.headers["Retry-After"]) == (503, "5")
        c.prefillers[1].healthy = True
        await until(lambda: c.gateway.fleet.available("prefiller"))
        assert (await c.complete(max_tokens=3)).status == 200


async def test_a_prefill_that_dies_after_its_push_leaves_no_kv() -> None:
    async with cluster(decode_leg="append-first-token") as c:
        prefiller = c.prefillers[0]

        async def push_and_die(engine: Any, request: Any, body: Any) -> Any:
            await prefiller.push(body["kv_transfer_params"]["disagg_spec"], body)
            return await cut(engine, request, body)

        prefiller.behave = push_and_die
        assert (await c.complete("a b c", max_tokens=3)).status == 502
        await until(c.decoders[0].generations)
        assert c.decoders[0].generations()[0].body["max_tokens"] == 1
        await until(lambda: not c.left_behind())


async def test_a_drain_that_fails_is_counted_and_gives_the_slots_back() -> None:
    async with cluster(leaks_kv=True) as c:
        c.decoders[0].behave = answering(500, "boom")
        assert (await c.complete([1, 2, 3], max_tokens=3)).status == 502
        await until(lambda: c.metric("drain_failures_total", decoder="decoder-0") == 1)
        await until(lambda: not c.left_behind().keys() - {"kv"})


@pytest.mark.parametrize("connector", BOTH)
async def test_an_aborted_prefill_is_retried_and_never_decoded(connector: str) -> None:
    async with cluster(2, 1, connector=connector, limits={"notification_s": 0.1}, leaks_kv=True) as c:
        c.prefillers[0].finish = c.prefillers[1].finish = "abort"
        c.prefillers[0].ranks_silent = c.prefillers[1].ranks_silent = 1
        reply = await c.complete([1, 2], max_tokens=3)
        assert (reply.status, c.decoders[0].generations()) == (502, [])
        assert c.metric("retries_total", role="prefiller") == 1


async def test_a_decoder_that_does_not_stream_cannot_continue_a_first_token() -> None:
    async with cluster(decode_leg="append-first-token", leaks_kv=True) as c:
        c.decoders[0].behave = answering_in_one_piece
        assert (await c.complete([1, 2], max_tokens=3)).status == 502


async def answering_in_one_piece(engine: FakeEngine, request: Any, body: Any) -> Any:
    return web.json_response({"choices": [{"index": 0, "text": "x", "finish_reason": "length"}]})


async def test_the_last_step_of_a_cut_prefill_is_waited_for_no_longer_than_the_notices_limit() -> None:
    assert transfer.LAST_STEP_S == 5
    async with cluster(limits={"notification_s": 0.1}) as c:
        c.prefillers[0].behave = cut
        assert (await c.complete([1, 2, 3], max_tokens=3)).status == 502
        began = asyncio.get_running_loop().time()
        await until(lambda: not c.left_behind())
        assert asyncio.get_running_loop().time() - began < 10


async def test_half_a_surrogate_pair_is_refused_before_an_engine_stumbles_over_it() -> None:
    """An engine answers it with 500; three of them took every prefiller out of rotation."""
    async with cluster() as c:
        poison = b'{"model": "m", "prompt": "\\ud800", "max_tokens": 2}'
        reply = await c.post("/v1/completions", data=poison)
        assert c.prefillers[0].received == []
        whole = await c.post("/v1/completions", data=poison.replace(b"\\ud800", b"\\ud834\\udd1e"))
    assert (reply.status, whole.status) == (400, 200)
    assert "surrogate" in reply.json["error"]["message"]
