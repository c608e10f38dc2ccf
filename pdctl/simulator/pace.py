"""Work -> time: how long a step of the simulated engine and a KV transfer take."""

from __future__ import annotations

import asyncio
import random

from .faults import FaultSwitch
from .parameters import Parameters

GIB = 2**30


class Pace:
    """Sleeps for as long as the work would take."""

    def __init__(self, parameters: Parameters, faults: FaultSwitch, seed: int) -> None:
        self._parameters = parameters
        self._faults = faults
        self._random = random.Random(seed)
        self._last_end = 0.0

    def step_seconds(self, prefill_tokens: int, sequences: int) -> float:
        """One engine step.

        seconds = itl x (1 + growth x (sequences - 1)) + prefill_tokens / rate

        The weights are read once a step whatever the batch (the constant), each sequence adds the reading of
        its own KV (the growth), and prompt tokens in the same step hold up every sequence in it (the last
        term): that is the interference between prefill and decode that disaggregation removes. A shape, not a
        measurement.
        """
        chosen = self._parameters
        decode = chosen.itl_ms / 1000 * (1 + chosen.batch_growth * max(0, sequences - 1))
        return (decode + prefill_tokens / chosen.prefill_tokens_per_s) * self._faults.now.slow

    async def step(self, prefill_tokens: int, sequences: int) -> float:
        """Wait for one step to pass; its length in seconds."""
        jitter = self._parameters.jitter
        seconds = self.step_seconds(prefill_tokens, sequences) * self._random.uniform(1 - jitter, 1 + jitter)
        now = asyncio.get_running_loop().time()
        # Steps follow each other: the time our own bookkeeping took since the last one is part of this one,
        # and timers that fire late by a millisecond do not add up.
        begin = self._last_end if now - self._last_end < seconds else now
        self._last_end = begin + seconds
        await asyncio.sleep(self._last_end - now)
        return seconds

    async def transfer(self, size: int) -> float:
        """Wait for `size` bytes of KV to pass; seconds."""
        seconds = size / (self._parameters.kv_gib_per_s * GIB) * self._faults.now.slow
        await asyncio.sleep(seconds)
        return seconds
