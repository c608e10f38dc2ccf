"""Slots: who enters, who waits, who is told to go."""

from __future__ import annotations

import asyncio
import random

import pytest

from pdctl.proxy.admission import Admission, Lease
from pdctl.proxy.answers import RefusedError
from pdctl.proxy.config import Limits, parse
from pdctl.proxy.fleet import Fleet
from pdctl.proxy.metrics import Metrics

from .cluster import cluster, until
from .engines import hang


def admission(slots: list[int], **limits: float) -> tuple[Admission, Fleet]:
    place = {"host": "127.0.0.1", "init_ports": [1], "alloc_ports": [2]}
    decoders = [
        {"name": f"d{i}", "url": "http://x:1", **place, "slots": count} for i, count in enumerate(slots)
    ]
    anywhere = {"host": "127.0.0.1", "port": 0}
    config = parse(
        {
            "cluster": "c",
            "mode": "disaggregated",
            "connector": "lmcache",
            "listen": anywhere,
            "notification": anywhere,
            "model": "m",
            "chunk_size": 4,
            "decode_leg": "original",
            "prefillers": [{"name": "p", "url": "http://x:1"}],
            "decoders": decoders,
        }
    )
    fleet = Fleet(config, Metrics())
    for member in fleet.members:
        fleet.back(member, None)
    return Admission(fleet, Limits(**limits)), fleet  # type: ignore[arg-type]


async def test_slots_are_never_overbooked_and_all_come_back() -> None:
    gate, _ = admission([8, 5], queue_wait_s=5)
    rng = random.Random(7)
    peak = 0

    async def one() -> None:
        nonlocal peak
        lease = await gate.acquire(rng.randint(1, 5))
        for name, size in (("d0", 8), ("d1", 5)):
            assert gate.used(name) <= size
        peak = max(peak, gate.used("d0") + gate.used("d1"))
        await asyncio.sleep(rng.random() / 1000)
        lease.release()
        lease.release()

    await asyncio.gather(*(one() for _ in range(300)))
    assert (gate.used("d0"), gate.used("d1"), gate.waiting) == (0, 0, 0)
    assert peak > 8


async def test_nobody_overtakes_a_large_request_in_the_queue() -> None:
    gate, _ = admission([4], queue_wait_s=5)
    held = [await gate.acquire(2), await gate.acquire(1)]
    order: list[str] = []

    async def one(name: str, need: int) -> Lease:
        lease = await gate.acquire(need)
        order.append(name)
        return lease

    large = asyncio.create_task(one("large", 4))
    await until(lambda: gate.waiting == 1)
    small = asyncio.create_task(one("small", 1))
    await until(lambda: gate.waiting == 2)
    for lease in held:
        lease.release()
    (await large).release()
    await small
    assert order == ["large", "small"]


@pytest.mark.parametrize(
    ("need", "limits", "status"), [(9, {}, 413), (2, {"queue": 0}, 429), (2, {"queue_wait_s": 0.01}, 429)]
)
async def test_who_cannot_enter_is_told_so(need: int, limits: dict[str, float], status: int) -> None:
    gate, _ = admission([4, 8], **limits)
    await gate.acquire(4, {"d1"})
    await gate.acquire(7, {"d0"})
    with pytest.raises(RefusedError) as refused:
        await gate.acquire(need)
    assert refused.value.answer.status == status
    assert (refused.value.answer.retry_after is not None) == (status == 429)
    assert gate.waiting == 0


async def test_those_who_wait_for_a_decoder_that_goes_down_are_told_at_once() -> None:
    gate, fleet = admission([4], queue_wait_s=30)
    lease = await gate.acquire(4)
    waiting = asyncio.create_task(gate.acquire(1))
    await until(lambda: gate.waiting == 1)
    fleet.down(fleet.of("decoder")[0], "test")
    with pytest.raises(RefusedError) as refused:
        await waiting
    assert refused.value.answer.status == 503
    lease.release()


async def test_slots_are_held_until_the_decoder_s_first_byte() -> None:
    async with cluster(slots=2) as c:
        c.decoders[0].behave = hang
        first = asyncio.create_task(c.complete(list(range(8)), max_tokens=5, stream=True))
        await until(c.decoders[0].generations)
        second = asyncio.create_task(c.complete([1], max_tokens=5))
        await until(lambda: c.gateway.admission.waiting == 1)
        assert c.left_behind()["slots"] == 2
        assert 'pdctl_proxy_decoder_slots_used{decoder="decoder-0"} 2' in (await c.get("/metrics")).text
        c.decoders[0].behave = None
        first.cancel()
        assert (await second).status == 200
        too_large = await c.complete(list(range(9)), max_tokens=5)
        assert (too_large.status, too_large.json["error"]["code"]) == (413, 413)


async def test_a_streaming_decode_no_longer_holds_slots() -> None:
    async with cluster(slots=1) as c:
        c.decoders[0].gap_s = 0.02
        long = asyncio.create_task(c.complete([1], max_tokens=10**6, stream=True))
        await until(
            lambda: c.gateway.in_flight and c.decoders[0].generations() and not c.left_behind().get("slots")
        )
        assert (await c.complete([2], max_tokens=2)).status == 200
        long.cancel()


async def test_a_full_queue_is_a_429_with_a_hint_when_to_return() -> None:
    async with cluster(slots=1, limits={"queue": 1, "queue_wait_s": 0.1}) as c:
        c.decoders[0].behave = hang
        first = asyncio.create_task(c.complete([1], max_tokens=5, stream=True))
        await until(c.decoders[0].generations)
        waiting = asyncio.create_task(c.complete([2], max_tokens=5))
        await until(lambda: c.gateway.admission.waiting == 1)
        reply = await c.complete([3], max_tokens=5)
        assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
        assert (await waiting).status == 429  # waited too long
        c.decoders[0].behave = None
        first.cancel()


async def test_whoever_is_placed_counts_before_anything_else_can_happen() -> None:
    """Between its turn in the queue and its first step a drain must already see it."""
    gate, fleet = admission([1])
    first = await gate.acquire(1)
    waiting = asyncio.create_task(gate.acquire(1))
    await until(lambda: gate.waiting == 1)
    first.end()
    assert [member.in_flight for member in fleet.members] == [1, 1]
    (await waiting).end()
    assert [member.in_flight for member in fleet.members] == [0, 0]


async def test_who_leaves_just_after_being_placed_leaves_nothing_behind() -> None:
    gate, fleet = admission([1])
    first = await gate.acquire(1)
    waiting = asyncio.create_task(gate.acquire(1))
    await until(lambda: gate.waiting == 1)
    first.end()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert [member.in_flight for member in fleet.members] == [0, 0] and gate.used("d0") == 0
