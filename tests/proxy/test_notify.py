"""Counting notices: any order, up to the rank count, and nothing remembered of what is over."""

from __future__ import annotations

import asyncio

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from pdctl.proxy.metrics import Metrics
from pdctl.proxy.notify import Board, decoded


def notice(request_id: str) -> bytes:
    packed: bytes = msgpack.packb({"type": "ProxyNotif", "req_id": request_id})
    return packed


def test_the_wire_format_is_lmcache_s() -> None:
    assert decoded(bytes.fromhex("82a474797065aa50726f78794e6f746966a67265715f6964a23137")) == "17"


@given(st.binary(max_size=200))
def test_no_message_raises(payload: bytes) -> None:
    assert decoded(payload) is None or isinstance(decoded(payload), str)


async def test_ranks_of_interleaved_requests_are_counted_apart() -> None:
    board = Board(Metrics())
    arrivals = {name: board.expect(name, 2) for name in ("a", "b")}
    for name in ("a", "b", "b"):
        board.take(notice(name))
    assert (arrivals["a"].complete, arrivals["b"].complete) == (False, True)
    board.take(notice("b"))  # one too many
    board.take(notice("a"))
    assert await arrivals["a"].wait(0)
    assert arrivals["b"].count == 2


async def test_no_notice_is_expected_for_an_empty_prompt() -> None:
    board = Board(Metrics())
    assert await board.expect("a", 0).wait(0)
    assert len(board) == 0


async def test_10000_requests_without_a_notice_leave_nothing() -> None:
    board = Board(Metrics())

    async def one(name: str) -> bool:
        arrival = board.expect(name, 2)
        complete = await arrival.wait(0.01)
        board.forget(name)
        return complete

    results = await asyncio.gather(*(one(str(i)) for i in range(10_000)))
    assert not any(results)
    assert len(board) == 0
    for i in range(10_000):
        board.take(notice(str(i)))
    assert len(board) == 0
