"""Another list of instances for a running proxy: added, removed, moved, refused."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from pdctl.proxy.config import load

from .cluster import Cluster, Json, cluster, until
from .engines import FakeDecoder, hang


def without(c: Cluster, *names: str, key: str = "decoders") -> list[Json]:
    return [item for item in c.config[key] if item["name"] not in names]


async def answers(c: Cluster, count: int = 4) -> set[str]:
    replies = [await c.complete([i], max_tokens=1) for i in range(count)]
    assert {reply.status for reply in replies} == {200}
    return {reply.headers["x-pdctl-decoder"] for reply in replies}


async def test_an_added_instance_serves_and_the_digest_is_that_of_the_new_file() -> None:
    async with cluster(1, 2) as c:
        both = c.config["decoders"]
        state = await c.reload(decoders=both[:1])
        assert [m["name"] for m in state["members"]] == ["prefiller-0", "decoder-0"]
        assert await answers(c) == {"decoder-0"}
        state = await c.reload(decoders=both)
        assert state["config"] == load(c.file).digest
        await until(lambda: len(c.gateway.fleet.available("decoder")) == 2)
        assert await answers(c) == {"decoder-0", "decoder-1"}


async def test_a_removed_instance_finishes_what_it_has_and_then_goes() -> None:
    async with cluster(1, 2) as c:
        c.decoders[0].gap_s = c.decoders[1].gap_s = 0.05
        running = [asyncio.create_task(c.complete([i], max_tokens=6, stream=True)) for i in range(2)]
        await until(lambda: all(decoder.generations() for decoder in c.decoders))
        state = await c.reload(decoders=without(c, "decoder-1"))
        assert [(m["name"], m["in_flight"]) for m in state["leaving"]] == [("decoder-1", 1)]
        assert await answers(c) == {"decoder-0"}
        assert [reply.events[-1] for reply in await asyncio.gather(*running)] == ["[DONE]"] * 2
        assert (await c.control("/state"))["leaving"] == []
        assert 'instance="decoder-1"' not in "\n".join(
            line for line in (await c.get("/metrics")).text.splitlines() if "in_flight" in line
        )


async def test_kv_on_a_removed_decoder_is_still_freed() -> None:
    async with cluster(1, 2, limits={"notification_s": 2}) as c:
        c.prefillers[0].notice_delay_s = 0.15
        requests = [asyncio.create_task(c.complete([i, 9], max_tokens=1)) for i in range(2)]
        await until(lambda: c.gateway.fleet.of("prefiller")[0].held == 2)
        await c.reload(decoders=without(c, "decoder-1"))
        for request in requests:
            request.cancel()
        await until(lambda: c.metric("drains_total", reason="disconnect") == 2)
        await until(lambda: not c.gateway.background)
        assert not c.decoders[1].kv


async def test_requests_in_the_queue_are_placed_on_an_added_decoder() -> None:
    async with cluster(1, 2, slots=1, leaks_kv=True) as c:
        both = c.config["decoders"]
        await c.reload(decoders=both[:1])
        c.decoders[0].behave = hang
        first = asyncio.create_task(c.complete([1], max_tokens=1))
        await until(lambda: c.decoders[0].generations())
        second = asyncio.create_task(c.complete([2], max_tokens=1))
        await until(lambda: c.gateway.admission.waiting == 1)
        await c.reload(decoders=both)
        assert (await second).headers["x-pdctl-decoder"] == "decoder-1"
        first.cancel()
        await until(lambda: len(c.decoders[0].generations()) == 2)
        await c.decoders[0].stop()
        await until(lambda: not c.gateway.background)


async def test_requests_in_the_queue_hear_at_once_when_nobody_is_left_who_could_take_them() -> None:
    async with cluster(1, 2, limits={"queue_wait_s": 30}) as c:
        await c.control("/drain", {"instances": ["decoder-0", "decoder-1"]})
        waiting = asyncio.create_task(c.complete([1], max_tokens=1))
        await until(lambda: c.gateway.admission.waiting == 1)
        nowhere = {**c.config["decoders"][0], "name": "decoder-7", "url": "http://127.0.0.1:9"}
        await c.reload(decoders=[nowhere])
        assert (await waiting).status == 503


async def test_an_instance_that_moved_is_another_one_and_as_drained_as_before() -> None:
    async with cluster(1, 2, connector="nixl") as c:
        c.decoders[1].gap_s = 0.05
        await c.control("/drain", {"instances": ["decoder-0"]})
        running = asyncio.create_task(c.complete([1], max_tokens=6, stream=True))
        await until(lambda: c.decoders[1].generations())
        moved = FakeDecoder("decoder-1", c.decoders[1].init_ports)
        await moved.start()
        await c.control("/drain", {"instances": ["decoder-1"]})
        state = await c.reload(
            decoders=[c.config["decoders"][0], {**c.config["decoders"][1], "url": moved.url}]
        )
        assert [m["name"] for m in state["leaving"]] == ["decoder-1"]
        assert [m["drained"] for m in state["members"]] == [False, True, True]
        assert (await running).status == 200
        await c.control("/undrain", {"instances": ["decoder-1"]})
        assert await answers(c) == {"decoder-1"}
        assert len(moved.generations()) == 4
        await moved.stop()


async def test_the_idle_time_of_an_instance_that_moved_counts_from_its_last_request_anywhere() -> None:
    """Its KV may be wanted for one lease more, wherever the request had found it."""
    async with cluster(1, 1, connector="nixl") as c:
        c.decoders[0].gap_s = 0.05
        running = asyncio.create_task(c.complete([1], max_tokens=6, stream=True))
        await until(lambda: c.decoders[0].generations())
        moved = FakeDecoder("decoder-0", c.decoders[0].init_ports)
        await moved.start()
        before = asyncio.get_running_loop().time()
        await c.reload(decoders=[{**c.config["decoders"][0], "url": moved.url}])
        assert (await c.member("decoder-0"))["in_flight"] == 0
        assert (await c.member("decoder-0"))["idle_s"] is None
        assert (await running).status == 200
        ended = asyncio.get_running_loop().time()
        idle_s = (await c.member("decoder-0"))["idle_s"]
        assert idle_s <= asyncio.get_running_loop().time() - ended + 0.05 < ended - before
        assert (await c.control("/state"))["leaving"] == []
        await moved.stop()


async def test_who_leaves_and_comes_back_is_idle_since_its_last_request_before() -> None:
    async with cluster(1, 2, connector="nixl") as c:
        both = c.config["decoders"]
        c.decoders[1].gap_s = 0.05
        await c.control("/drain", {"instances": ["decoder-0"]})
        running = asyncio.create_task(c.complete([1], max_tokens=6, stream=True))
        await until(lambda: c.decoders[1].generations())
        await c.reload(decoders=both[:1])
        await c.reload(decoders=both)
        assert (await c.member("decoder-1"))["idle_s"] is None
        assert (await running).status == 200
        assert (await c.member("decoder-1"))["idle_s"] >= 0


async def test_another_buffer_size_counts_for_the_next_request_and_forgets_no_slot() -> None:
    async with cluster(1, 1, slots=1, leaks_kv=True) as c:
        c.decoders[0].behave = hang
        first = asyncio.create_task(c.complete([1], max_tokens=1))
        await until(lambda: c.decoders[0].generations())
        waiting = asyncio.create_task(c.complete([2], max_tokens=1))
        await until(lambda: c.gateway.admission.waiting == 1)
        await c.reload(decoders=[{**c.config["decoders"][0], "slots": 2}])
        await until(lambda: c.gateway.admission.waiting == 0)
        assert c.gateway.admission.used("decoder-0") == 2
        for task in (first, waiting):
            task.cancel()
        await c.decoders[0].stop()
        await until(lambda: not c.gateway.background)


async def test_limits_and_health_are_taken_up() -> None:
    async with cluster() as c:
        await c.reload(limits={**c.config["limits"], "body_bytes": 10}, health={"interval_s": 0.02})
        assert (await c.complete([1], max_tokens=1)).status == 413
        assert c.gateway.legs.limits.body_bytes == c.gateway.admission.limits.body_bytes == 10
        await c.reload(limits={**c.config["limits"], "body_bytes": 1000})
        assert (await c.complete([1], max_tokens=1)).status == 200


@pytest.mark.parametrize(
    ("change", "words", "keys"),
    [
        ({"model": "other"}, "a change of model needs a restart", ["model"]),
        ({"chunk_size": 8, "chat": True}, "chunk_size, chat", ["chunk_size", "chat"]),
        ({"decoders": []}, "decoders: mode disaggregated needs at least one", []),
        ({"unheard": 1}, "unheard: unknown key", []),
    ],
)
async def test_what_cannot_be_taken_up_leaves_everything_as_it_was(
    change: Json, words: str, keys: list[str]
) -> None:
    async with cluster(1, 2) as c:
        digest = load(c.file).digest
        answer = await c.reload(**change, status=409)
        assert words in answer["error"] and answer["restart"] == keys
        state = await c.control("/state")
        assert state["config"] == digest and len(state["members"]) == 3
        assert await answers(c) == {"decoder-0", "decoder-1"}


async def test_a_file_that_is_gone_or_broken_is_a_reason_not_an_end() -> None:
    async with cluster() as c:
        c.file.write_text("{")
        assert "not JSON" in (await c.control("/reload", {}, status=409))["error"]
        c.file.unlink()
        assert "No such file" in (await c.control("/reload", {}, status=409))["error"]
        assert c.metric("reloads_total", outcome="refused") == 2
        assert await answers(c) == {"decoder-0"}


async def test_many_reloads_at_once_end_with_the_last_file() -> None:
    async with cluster(1, 3) as c:
        every = c.config["decoders"]
        rounds: list[Any] = []
        for turn in range(12):
            rounds.append(c.reload(decoders=every[: turn % 3 + 1]))
            rounds.append(c.control("/reload", {}))
        await asyncio.gather(*rounds)
        state = await c.reload(decoders=every)
        assert [m["name"] for m in state["members"]][1:] == ["decoder-0", "decoder-1", "decoder-2"]
        await until(lambda: len(c.gateway.fleet.available("decoder")) == 3)
        assert len(c.service._poller._watches) == 4


async def test_a_hang_up_reloads() -> None:
    async with cluster(1, 2) as c:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, c.service.hang_up)
        c.config["decoders"] = without(c, "decoder-1")
        c.file.write_text("{}")
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: c.metric("reloads_total", outcome="refused") == 1)
        await c.reload(decoders=c.config["decoders"])
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: c.metric("reloads_total", outcome="ok") == 2)
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        assert len(c.gateway.fleet.members) == 2


async def test_who_leaves_and_comes_back_is_on_the_side_where_it_was() -> None:
    async with cluster(2, 2) as c:
        every = c.config["decoders"]
        await c.control("/sides", {"new": ["decoder-1", "prefiller-1"]})
        await c.reload(decoders=every[:1])
        state = await c.reload(decoders=every)
        assert [m["name"] for m in state["members"] if m["new"]] == ["prefiller-1", "decoder-1"]


async def test_requests_wait_until_an_entirely_new_list_was_looked_at() -> None:
    async with cluster(1, 2, connector="nixl", health={"interval_s": 60}) as c:
        both = c.config["decoders"]
        await c.reload(decoders=both[:1])
        await c.reload(decoders=both[1:])
        assert (await c.complete(max_tokens=1)).headers["x-pdctl-decoder"] == "decoder-1"
        nobody = {**both[0], "url": "http://127.0.0.1:9"}
        await c.reload(decoders=[nobody])
        assert (await c.complete(max_tokens=1)).status == 503
