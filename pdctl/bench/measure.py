"""Running endpoint -> Measurement: check the model, warm up, read counters, load, read counters again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aiohttp

from pdctl.bench.answer import one_line
from pdctl.bench.client import (
    LoadResult,
    Progress,
    Target,
    Workload,
    check_model,
    open_session,
    run_load,
    warm_up,
)
from pdctl.bench.counters import PromptCheck, Reading, check_prompts, totals
from pdctl.bench.route import route
from pdctl.bench.stopping import interruptible, race

_SCRAPE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class MetricsSource:
    """The /metrics of one instance that computes prompts: a prefiller, or a server of an aggregated cluster.

    A decoder counts each prompt again, so decoders are no sources.
    """

    instance: str
    base_url: str
    connect_to: tuple[str, int] | None = None


@dataclass(frozen=True)
class Measurement:
    load: LoadResult
    prompt_check: PromptCheck | None  # None: no sources were given


def measure(
    target: Target,
    workload: Workload,
    sources: Sequence[MetricsSource] = (),
    progress: Callable[[Progress], None] = lambda _: None,
) -> Measurement:
    """Blocks until the load ends; the first Ctrl-C ends it early with what there is, a second one aborts."""
    return asyncio.run(interruptible(lambda stop: measuring(target, workload, sources, progress, stop)))


async def measuring(
    target: Target,
    workload: Workload,
    sources: Sequence[MetricsSource],
    progress: Callable[[Progress], None],
    stop: asyncio.Event,
) -> Measurement:
    async with open_session(workload.concurrency) as session:
        before, _ = await race(_prepare(session, target, workload, sources), stop)
        load = await run_load(session, target, workload, progress, stop)
        if before is None:
            return Measurement(load, None)
        after = await _scrape(session, sources)
    return Measurement(load, _check(load, before, after))


async def _prepare(
    session: aiohttp.ClientSession, target: Target, workload: Workload, sources: Sequence[MetricsSource]
) -> dict[str, Reading]:
    await check_model(session, target)
    await warm_up(session, target, workload)
    return await _scrape(session, sources)


async def _scrape(session: aiohttp.ClientSession, sources: Sequence[MetricsSource]) -> dict[str, Reading]:
    readings = await asyncio.gather(*(_reading(session, source) for source in sources))
    return {source.instance: reading for source, reading in zip(sources, readings, strict=True)}


async def _reading(session: aiohttp.ClientSession, source: MetricsSource) -> Reading:
    """A scrape that fails is a finding, not a failed benchmark."""
    try:
        async with (
            asyncio.timeout(_SCRAPE_TIMEOUT_S),
            session.get(**route(source.base_url, "/metrics", source.connect_to)) as answer,
        ):
            if answer.status != 200:
                return Reading({}, f"/metrics answers HTTP {answer.status}")
            return Reading(totals(await answer.text(errors="replace")))
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return Reading({}, f"/metrics cannot be read: {one_line(str(error) or type(error).__name__)}")


def _check(load: LoadResult, before: dict[str, Reading], after: dict[str, Reading]) -> PromptCheck | None:
    tokens = sum(sample.input_tokens for sample in load.samples if sample.completed)
    failed = sum(not sample.completed for sample in load.samples)
    if before and failed:
        # a request that failed may or may not have reached an engine's counter
        return PromptCheck(tokens, None, None, f"{failed} requests did not complete")
    return check_prompts(tokens, before, after)
