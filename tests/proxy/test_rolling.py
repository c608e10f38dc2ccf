"""Rolling restarts and reloads under continuous load: no request may fail, no pair may be a wrong one."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from .cluster import Cluster, Json, Reply, cluster, until
from .engines import FakeEngine

WORKERS = 8


@pytest.mark.parametrize("seed", [1, 2])
async def test_waves_over_two_sides_lose_no_request_though_peers_grow_stale(seed: int) -> None:
    async with cluster(3, 4, slots=4, limits={"notification_s": 1, "queue_wait_s": 10}) as c:
        rng = random.Random(seed)
        for prefiller in c.prefillers:
            prefiller.remembers = True
        crossed = watch_pairs(c)
        async with load(c, rng) as replies, chaos(c, rng, spare="decoder-3"):
            for _ in range(2):
                await waves(c, rng)
        assert_all_served(c, replies)
        assert not crossed


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_rolling_restart_of_every_instance_loses_no_request(seed: int) -> None:
    async with cluster(2, 2, connector="nixl", limits={"queue_wait_s": 10}) as c:
        rng = random.Random(seed)
        async with load(c, rng) as replies:
            for engine in (*c.decoders, *c.prefillers) * 2:
                await roll(c, [engine])
        assert_all_served(c, replies)


async def test_the_only_instances_restart_while_requests_wait() -> None:
    async with cluster(1, 1, limits={"queue_wait_s": 10}) as c:
        c.prefillers[0].remembers = True
        async with load(c, random.Random(3)) as replies:
            for _ in range(3):
                await roll(c, [c.decoders[0], c.prefillers[0]])
        assert_all_served(c, replies)


@pytest.mark.parametrize("connector", ["lmcache", "nixl"])
@pytest.mark.parametrize("seed", [1, 2])
async def test_no_mix_of_operations_loses_a_request(connector: str, seed: int) -> None:
    """Nobody restarts here, but everything else that can be asked for is, by several clients at once."""
    async with cluster(3, 3, connector=connector, slots=4, limits={"queue_wait_s": 20}) as c:
        rng = random.Random(seed)
        every = {key: c.config[key] for key in ("prefillers", "decoders")}
        async with load(c, rng) as replies:
            await asyncio.gather(*(meddle(c, rng, every) for _ in range(3)))
            await c.reload(**every)
            await c.control("/sides", {"new": []})
            await c.control("/undrain", {"instances": [engine.name for engine in c.engines]})
        assert_all_served(c, replies)


async def meddle(c: Cluster, rng: random.Random, every: dict[str, list[Json]]) -> None:
    for _ in range(15):
        names = [member["name"] for member in (await c.control("/state"))["members"]]
        some = rng.sample(names, rng.randint(0, len(names)))
        verb = rng.choice(["drain", "undrain", "undrain", "sides", "reload"])
        if verb == "reload":
            await c.reload(**{key: rng.sample(rows, rng.randint(1, 3)) for key, rows in every.items()})
        else:
            await ask(c, verb, some)
        await asyncio.sleep(rng.random() / 50)


async def ask(c: Cluster, verb: str, names: list[str]) -> None:
    """Another client may have taken one of them out of the list in between."""
    key = "new" if verb == "sides" else "instances"
    with contextlib.suppress(AssertionError):
        await c.control(f"/{verb}", {key: names})


async def waves(c: Cluster, rng: random.Random) -> None:
    """Each of three pairs restarts once; those before and after are never paired."""
    decoders, prefillers = rng.sample(c.decoders[:3], 3), rng.sample(c.prefillers, 3)
    new: list[str] = []
    for decoder, prefiller in zip(decoders, prefillers, strict=True):
        new += [decoder.name, prefiller.name]
        await roll(c, [decoder, prefiller], sides=new if len(new) < 6 else [])


async def roll(c: Cluster, engines: Collection[FakeEngine], sides: list[str] | None = None) -> None:
    """What a rollout does with a batch: drain, wait, restart, divide, undrain."""
    names = [engine.name for engine in engines]
    await c.control("/drain", {"instances": names})
    while not await idle(c, names):
        await asyncio.sleep(0.01)
    for engine in engines:
        await FakeEngine.stop(engine)
        engine.process_start = (engine.process_start or 0) + 1
        if hasattr(engine, "peers"):
            engine.peers.clear()
    await asyncio.sleep(0.05)
    for engine in engines:
        await engine.start()
    if sides is not None:
        await c.control("/sides", {"new": sides})
    await c.control("/undrain", {"instances": names})
    await until(lambda: all(m.up for m in c.gateway.fleet.members if m.name in names))


async def idle(c: Cluster, names: Collection[str]) -> bool:
    members = [m for m in (await c.control("/state"))["members"] if m["name"] in names]
    return not any(m["in_flight"] + m["held"] for m in members)


@asynccontextmanager
async def load(c: Cluster, rng: random.Random) -> AsyncIterator[list[Reply]]:
    """Workers that ask one thing after the other until the block is over."""
    replies: list[Reply] = []
    over = asyncio.Event()
    for decoder in c.decoders:
        decoder.gap_s = 0.003

    async def work(number: int) -> None:
        while not over.is_set():
            prompt = [number, len(replies), *range(rng.randint(0, 9))]
            replies.append(await c.complete(prompt, max_tokens=rng.randint(1, 6), stream=rng.random() < 0.5))

    tasks = [asyncio.create_task(work(number)) for number in range(WORKERS)]
    await until(lambda: len(replies) > WORKERS)
    try:
        yield replies
    finally:
        over.set()
        await asyncio.gather(*tasks)


@asynccontextmanager
async def chaos(c: Cluster, rng: random.Random, spare: str) -> AsyncIterator[None]:
    """Another client that takes one decoder out of the list and puts it back, all the time."""
    every = c.config["decoders"]
    less = [item for item in every if item["name"] != spare]

    async def disturb() -> None:
        while True:
            await c.reload(decoders=rng.choice([every, less]))
            await asyncio.sleep(rng.random() / 20)

    task = asyncio.create_task(disturb())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await c.reload(decoders=every)


def watch_pairs(c: Cluster) -> list[tuple[str, str]]:
    """Pairs over the sides, collected where the prefiller learns of its decoder.

    An instance changes sides while it is drained and idle, so how things are now is how they were.
    """
    crossed: list[tuple[str, str]] = []

    async def behave(engine: FakeEngine, request: web.Request, body: Json) -> web.StreamResponse:
        ports = body["kv_transfer_params"]["disagg_spec"]["receiver_init_port"]
        decoder = next(each.name for each in c.decoders if each.init_ports == ports)
        sides = c.gateway.fleet.sides
        if (engine.name in sides) != (decoder in sides):
            crossed.append((engine.name, decoder))
        return await engine.generate(request, body)

    for prefiller in c.prefillers:
        prefiller.behave = behave
    return crossed


def assert_all_served(c: Cluster, replies: list[Reply]) -> None:
    bad = [reply.text for reply in replies if reply.status != 200]
    assert not bad, f"{len(bad)} of {len(replies)} failed: {bad[0]}"
    unfinished = [
        r for r in replies if r.headers["Content-Type"].startswith("text/e") and r.events[-1] != "[DONE]"
    ]
    assert not unfinished and len(replies) > 20
    for engine in c.engines:
        assert not c.metric("instance_failures_total", instance=engine.name), "a second attempt hid a failure"
