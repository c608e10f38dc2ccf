import asyncio
import os
import signal

from pdctl.bench.measure import Measurement, MetricsSource, measuring
from pdctl.bench.stopping import interruptible
from tests.bench.door import HANG, Script, opened, tokens, workload


def measured(script, counted=lambda door: len(door.bodies) * 8, **changes) -> Measurement:
    async def run() -> Measurement:
        async with opened(script) as door:
            door.metrics = lambda: f'vllm:prompt_tokens_total{{engine="0"}} {counted(door)}\n'
            sources = [MetricsSource("prefiller-0", door.base_url)]
            wanted = workload(**changes)
            return await interruptible(
                lambda stop: measuring(door.target, wanted, sources, lambda _: None, stop)
            )

    return asyncio.run(run())


def test_warm_up_requests_are_in_neither_count():
    seen = measured(lambda _: tokens(4), num_prompts=6, concurrency=2, warmups=3)
    assert len(seen.load.samples) == 6
    assert (seen.prompt_check.client_tokens, seen.prompt_check.server_tokens) == (48, 48)


def test_a_server_that_counts_more_prompt_tokens_is_seen():
    seen = measured(lambda _: tokens(4), lambda door: len(door.bodies) * 11, num_prompts=6)
    assert seen.prompt_check.deviates and round(seen.prompt_check.deviation, 3) == 0.375


def test_prompts_are_not_compared_when_requests_failed():
    seen = measured([tokens(4), Script((), status=500)], num_prompts=4)
    assert seen.prompt_check.problem == "2 requests did not complete"


def test_an_unreachable_metrics_page_is_reported_and_costs_nothing():
    async def run() -> Measurement:
        async with opened([]) as shut:
            pass
        async with opened(lambda _: tokens(4)) as door:
            sources = [MetricsSource("prefiller-0", shut.base_url)]
            return await measuring(door.target, workload(), sources, lambda _: None, asyncio.Event())

    seen = asyncio.run(run())
    assert seen.load.samples[0].completed
    assert seen.prompt_check.problem.startswith("prefiller-0: /metrics cannot be read")


def test_ctrl_c_during_warm_up_ends_at_once_with_nothing_sent():
    def script(number: int) -> Script:
        os.kill(os.getpid(), signal.SIGINT)
        return HANG

    seen = measured(script, num_prompts=3, warmups=1)
    assert [sample.error for sample in seen.load.samples] == ["not sent: interrupted"] * 3
    assert seen.load.interrupted == "interrupted" and seen.prompt_check is None
