"""Clients that leave; engines see it within a second, and nothing stays behind anywhere."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from pdctl.proxy import transfer

from .cluster import Cluster, cluster, until
from .engines import hang

BOTH = ["lmcache", "nixl"]


class Meeting:
    """Where all wait for the last one (asyncio.Barrier came with Python 3.11)."""

    def __init__(self, parties: int) -> None:
        self._missing = parties
        self._complete = asyncio.Event()

    async def arrive(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self._complete.set()
        await self._complete.wait()


async def read_one_chunk_and_leave(c: Cluster, index: int, everybody: Meeting) -> None:
    body = {"prompt": [index, 1, 2], "max_tokens": 100000, "stream": True}
    async with c.session.post(c.url + "/v1/completions", json=body) as response:
        assert response.status == 200
        await response.content.readany()
        await everybody.arrive()
        response.close()


def own_tasks() -> Counter[str]:
    """All tasks but the servers' waiting for a next request on the idle connections of a pool."""
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]  # type: ignore[union-attr]
    return Counter(name for name in names if name != "RequestHandler.start")


@pytest.mark.parametrize("connector", BOTH)
async def test_200_abandoned_streams_are_200_cancellations_and_leave_nothing(connector: str) -> None:
    async with cluster(connector=connector, slots=200, limits={"connect_s": 10, "first_byte_s": 30}) as c:
        before = own_tasks()
        c.decoders[0].gap_s = 30
        everybody = Meeting(200)  # all at once: no pool of connections may be a ceiling
        await asyncio.gather(*(read_one_chunk_and_leave(c, i, everybody) for i in range(200)))
        await until(lambda: c.decoders[0].cancelled == 200)
        await until(lambda: not c.left_behind())
        assert c.metric("requests_total", endpoint="completions", outcome="disconnected") == 200
        await until(lambda: own_tasks() == before)


@pytest.mark.parametrize("connector", BOTH)
async def test_leaving_while_the_prefiller_works_cancels_the_prefill_within_a_second(connector: str) -> None:
    async with cluster(connector=connector, limits={"notification_s": 0.1}) as c:
        c.prefillers[0].hang_s = 30
        request = asyncio.create_task(c.complete([1, 2, 3], max_tokens=5))
        await until(c.prefillers[0].generations)
        left = time.monotonic()
        request.cancel()
        await until(lambda: c.prefillers[0].cancelled == 1)
        assert time.monotonic() - left < 10
        await until(lambda: not c.left_behind())
        assert c.decoders[0].received == []


async def test_leaving_while_the_kv_is_on_its_way_still_gets_it_off_the_decoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transfer, "LAST_STEP_S", 0.01)  # it is not what this waits for
    async with cluster(limits={"notification_s": 5}) as c:
        c.prefillers[0].notice_delay_s = 0.2
        request = asyncio.create_task(c.complete([1, 2, 3], max_tokens=50, stream=True, min_tokens=9))
        await until(
            lambda: c.prefillers[0].generations() and not c.gateway.fleet.of("prefiller")[0].in_flight
        )
        request.cancel()
        await until(lambda: c.gateway.in_flight == 0)
        assert c.left_behind()["slots"] == 1  # held until the decoder has fetched it
        await until(c.decoders[0].generations)
        body = c.decoders[0].generations()[0].body
        await until(lambda: not c.left_behind())
    assert body == {"model": "m", "prompt": [1, 2, 3], "max_tokens": 1, "stream": False}
    assert c.metric("drains_total", reason="disconnect") == 1


async def test_leaving_before_the_decoder_s_first_byte_aborts_the_decode_and_drains() -> None:
    async with cluster(limits={"notification_s": 5}) as c:
        c.decoders[0].behave = hang
        request = asyncio.create_task(c.complete([1, 2, 3], max_tokens=50, stream=True))
        await until(c.decoders[0].generations)
        c.decoders[0].behave = None
        request.cancel()
        await until(lambda: len(c.decoders[0].generations()) == 2)
        assert c.decoders[0].cancelled == 1
        first, drain = c.decoders[0].generations()
        await until(lambda: not c.left_behind())
    assert drain.body["max_tokens"] == 1
    assert first.headers["X-Request-Id"] != drain.headers["X-Request-Id"]


@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_while_the_decoder_streams_needs_no_drain(stream: bool) -> None:
    async with cluster() as c:
        c.decoders[0].gap_s = 0.02
        request = asyncio.create_task(c.complete([1, 2, 3], max_tokens=100000, stream=stream))
        await until(lambda: c.gateway.in_flight and not c.gateway.board)
        await until(lambda: c.decoders[0].generations() and not c.left_behind().get("slots"))
        request.cancel()
        await until(lambda: c.decoders[0].cancelled == 1)
        await until(lambda: not c.left_behind())
        assert len(c.decoders[0].generations()) == 1


async def test_leaving_the_queue_gives_the_place_to_the_next() -> None:
    async with cluster(slots=1) as c:
        c.decoders[0].behave = hang
        first = asyncio.create_task(c.complete([1], max_tokens=5, stream=True))
        await until(c.decoders[0].generations)
        waiting = [asyncio.create_task(c.complete([i], max_tokens=5)) for i in (2, 3)]
        await until(lambda: c.gateway.admission.waiting == 2)
        waiting[0].cancel()
        await until(lambda: c.gateway.admission.waiting == 1)
        c.decoders[0].behave = None
        first.cancel()
        assert (await waiting[1]).status == 200
