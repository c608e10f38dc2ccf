import asyncio
import os
import signal

import pytest

from pdctl.bench.client import LoadResult, open_session, run_load
from pdctl.bench.stopping import interruptible
from tests.bench.door import HANG, Door, Script, opened, tokens, workload


def test_ctrl_c_ends_the_load_with_a_partial_result_and_closes_its_connections():
    async def run() -> tuple[LoadResult, Door]:
        def script(number: int) -> Script:
            if number == 3:
                os.kill(os.getpid(), signal.SIGINT)
            return tokens(1) if number < 2 else HANG

        wanted = workload(num_prompts=8, concurrency=2)
        async with opened(script) as door, open_session(2) as session:
            result = await interruptible(lambda stop: run_load(session, door.target, wanted, stop=stop))
            async with asyncio.timeout(5):
                while door.in_flight:
                    await asyncio.sleep(0.01)
            return result, door

    def callers_own(*_: object) -> None:
        raise AssertionError("the first Ctrl-C is the bench's")

    signal.signal(signal.SIGINT, callers_own)
    result, door = asyncio.run(run())
    assert signal.getsignal(signal.SIGINT) is callers_own
    assert result.interrupted == "interrupted"
    assert [sample.completed for sample in result.samples[:2]] == [True, True]
    left = ["cut off: interrupted"] * 2 + ["not sent: interrupted"] * 4
    assert [sample.error for sample in result.samples[2:]] == left
    assert door.cut == 2


def test_a_second_ctrl_c_is_not_caught():
    async def run(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(interruptible(run))


def test_a_job_in_the_background_leaves_ctrl_c_ignored():
    async def run(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.05)
        assert not stop.is_set()

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(interruptible(run))
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
