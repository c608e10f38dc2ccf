"""What a request still needs of an instance, at every moment of its life."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from .cluster import Cluster, Json, cluster, until
from .engines import FakeEngine, answering, cut, event, hang, stream_to


async def needs(c: Cluster, name: str) -> tuple[int, int]:
    member = await c.member(name)
    return member["in_flight"], member["held"]


async def test_nixl_kv_stays_on_its_prefiller_until_the_decoder_s_first_event() -> None:
    gates = [asyncio.Event(), asyncio.Event()]

    async def slow(engine: FakeEngine, request: web.Request, body: Json) -> web.StreamResponse:
        await gates[0].wait()
        response = await stream_to(request)
        await response.write(event({"choices": [{"index": 0, "text": " t0", "finish_reason": None}]}))
        await gates[1].wait()
        await response.write(b"data: [DONE]\n\n")
        return response

    async with cluster(connector="nixl") as c:
        c.decoders[0].behave = slow
        request = asyncio.create_task(c.complete(max_tokens=1, stream=True))
        await until(lambda: c.decoders[0].generations())
        assert await needs(c, "prefiller-0") == (0, 1)
        assert (await c.member("prefiller-0"))["idle_s"] is None
        gates[0].set()
        await until(lambda: not c.gateway.fleet.of("prefiller")[0].held)
        assert await needs(c, "decoder-0") == (1, 0)
        gates[1].set()
        assert (await request).status == 200
        assert await needs(c, "decoder-0") == (0, 0)


async def test_nixl_kv_is_held_while_no_decoder_is_found() -> None:
    async with cluster(connector="nixl") as c:
        c.prefillers[0].hang_s = 0.1
        request = asyncio.create_task(c.complete(max_tokens=1))
        await until(lambda: c.prefillers[0].generations())
        assert await needs(c, "prefiller-0") == (1, 0)
        await c.control("/drain", {"instances": ["decoder-0"]})
        await until(lambda: c.gateway.admission.waiting)
        assert await needs(c, "prefiller-0") == (0, 1)
        await c.control("/undrain", {"instances": ["decoder-0"]})
        assert (await request).status == 200


@pytest.mark.parametrize("behave", [cut, answering(500, "broken"), answering(400, "no")])
async def test_nixl_kv_is_let_go_when_its_decode_fails(behave: object) -> None:
    async with cluster(connector="nixl") as c:
        c.decoders[0].behave = behave  # type: ignore[assignment]
        assert (await c.complete(max_tokens=1)).status in (400, 502)
        assert await needs(c, "prefiller-0") == (0, 0)


async def test_a_prefiller_is_needed_until_all_notices_are_there() -> None:
    async with cluster(limits={"notification_s": 2}) as c:
        c.prefillers[0].notice_delay_s = 0.15
        request = asyncio.create_task(c.complete([1, 2], max_tokens=1))
        await until(lambda: c.gateway.fleet.of("prefiller")[0].held)
        assert await needs(c, "prefiller-0") == (0, 1)
        assert await needs(c, "decoder-0") == (1, 0)
        assert (await request).status == 200
        assert await needs(c, "prefiller-0") == (0, 0)


async def test_late_notices_keep_both_needed_after_the_client_has_left() -> None:
    async with cluster(limits={"notification_s": 2}) as c:
        c.prefillers[0].notice_delay_s = 0.2
        request = asyncio.create_task(c.complete([1, 2], max_tokens=1))
        await until(lambda: c.gateway.fleet.of("prefiller")[0].held)
        request.cancel()
        await until(lambda: c.gateway.background)
        assert await needs(c, "prefiller-0") == (0, 1)
        assert await needs(c, "decoder-0") == (1, 0)
        await until(lambda: not c.gateway.fleet.of("prefiller")[0].held)


async def test_a_drain_of_kv_counts_as_a_request_of_its_decoder_alone() -> None:
    async with cluster(limits={"first_byte_s": 5}, leaks_kv=True) as c:
        c.decoders[0].behave = hang
        request = asyncio.create_task(c.complete([1, 2], max_tokens=1))
        await until(lambda: c.decoders[0].generations())
        request.cancel()
        await until(lambda: len(c.decoders[0].generations()) == 2)
        assert await needs(c, "decoder-0") == (1, 0)
        assert await needs(c, "prefiller-0") == (0, 0)
        c.decoders[0].behave = None
        await c.decoders[0].stop()
        await until(lambda: not c.gateway.background)


async def test_a_prefill_that_is_refused_leaves_nobody_needed() -> None:
    async with cluster() as c:
        c.prefillers[0].behave = answering(400, "no")
        assert (await c.complete([1], max_tokens=1)).status == 400
        assert await needs(c, "prefiller-0") == await needs(c, "decoder-0") == (0, 0)


async def test_idle_time_begins_when_the_last_need_ends() -> None:
    async with cluster(connector="nixl") as c:
        await asyncio.sleep(0.05)
        assert (await c.member("decoder-0"))["idle_s"] >= 0.05
        assert (await c.complete(max_tokens=1)).status == 200
        assert (await c.member("decoder-0"))["idle_s"] < 0.05
