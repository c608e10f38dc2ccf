"""Instances that restart, that poison a transfer, that are let in again."""

from __future__ import annotations

from dataclasses import replace

from .cluster import Cluster, cluster, until
from .engines import FakeEngine, cut


async def restart(c: Cluster, engine: FakeEngine) -> None:
    engine.process_start = (engine.process_start or 0) + 1
    member = next(item for item in c.gateway.fleet.members if item.name == engine.name)
    await until(lambda: member.started == engine.process_start)


async def test_a_restarted_decoder_is_not_blamed_for_its_prefillers_stale_peers() -> None:
    async with cluster(2, 1, limits={"notification_s": 0.05}, health={"failures": 1}, leaks_kv=True) as c:
        await restart(c, c.decoders[0])
        assert c.metric("decoder_restarts_total", decoder="decoder-0") == 1
        assert len(c.gateway.fleet.stale) == 2
        for prefiller in c.prefillers:
            prefiller.ranks_silent = 1
        assert (await c.complete([1, 2], max_tokens=3)).status == 504
        assert len(c.gateway.fleet.stale) == 1
        assert c.gateway.fleet.available("decoder")
        assert len(c.gateway.fleet.available("prefiller")) == 1


async def test_a_prefiller_without_a_stale_peer_is_preferred() -> None:
    async with cluster(2, 1) as c:
        await restart(c, c.decoders[0])
        await restart(c, c.prefillers[1])  # restarted too: it holds no peer any more
        replies = [await c.complete([1, 2], max_tokens=3) for _ in range(4)]
        assert {reply.headers["x-pdctl-prefiller"] for reply in replies} == {"prefiller-1"}
        assert c.gateway.fleet.stale == {("prefiller-0", "decoder-0")}


async def test_a_decoder_that_was_away_counts_as_restarted_when_it_tells_no_start_time() -> None:
    async with cluster() as c:
        c.decoders[0].process_start = None
        c.gateway.fleet.of("decoder")[0].started = None
        c.decoders[0].healthy = False
        await until(lambda: not c.gateway.fleet.available("decoder"))
        c.decoders[0].healthy = True
        await until(lambda: c.gateway.fleet.available("decoder"))
        assert c.metric("decoder_restarts_total", decoder="decoder-0") == 1


async def test_an_instance_returns_after_its_cool_down_and_leaves_again_at_the_next_failure() -> None:
    async with cluster(health={"cooldown_s": 0.1}, connector="nixl") as c:
        c.decoders[0].behave = cut
        statuses = [(await c.complete(max_tokens=3)).status for _ in range(4)]
        assert statuses == [502, 502, 502, 503]
        await until(lambda: c.gateway.fleet.available("decoder"))
        assert [(await c.complete(max_tokens=3)).status for _ in range(2)] == [502, 503]
        c.decoders[0].behave = None
        await until(lambda: c.gateway.fleet.available("decoder"))
        assert (await c.complete(max_tokens=3)).status == 200
        assert c.gateway.fleet.of("decoder")[0].failures == 0


async def test_a_prefiller_that_started_anew_keeps_no_peer_of_a_decoder_it_never_met() -> None:
    async with cluster(2, 2) as c:
        await restart(c, c.prefillers[1])
        await restart(c, c.decoders[0])
        assert c.gateway.fleet.stale == {("prefiller-0", "decoder-0")}
        await c.control("/drain", {"instances": ["prefiller-0", "decoder-1"]})
        assert (await c.complete([1, 2], max_tokens=1)).status == 200
        await restart(c, c.decoders[0])
        assert ("prefiller-1", "decoder-0") in c.gateway.fleet.stale


async def test_a_restart_of_who_has_left_says_nothing_about_its_successor() -> None:
    async with cluster(1, 1) as c:
        old = c.gateway.fleet.of("decoder")[0]
        c.gateway.fleet.adopt(replace(c.gateway.config, decoders=(replace(old.decoder, url="http://x:1"),)))
        c.gateway.fleet.back(old, 5000.0)
        assert not c.gateway.fleet.stale
        c.gateway.fleet.adopt(c.gateway.config)
