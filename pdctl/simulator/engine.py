"""Requests -> steps -> tokens: continuous batching with chunked prefill, on a made-up clock."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any

from . import text
from .connector import Connector, Loaded
from .errors import EngineDeadError, KVError
from .kv import PrefixCache
from .records import record_finish, record_prefill, record_token
from .runtime import Runtime
from .sequence import Output, Request, Sequence

log = logging.getLogger("engine")


class Engine:
    """The scheduler: each step gives every running sequence one token; the rest of the budget is prefill."""

    def __init__(self, runtime: Runtime, connector: Connector) -> None:
        arguments, parameters = runtime.arguments, runtime.parameters
        self._runtime = runtime
        self._connector = connector
        self._capacity = parameters.kv_cache_tokens
        blocks = self._capacity // arguments.block_size
        self._prefixes = PrefixCache(arguments.block_size, blocks, arguments.prefix_caching)
        self._start_state = text.empty_state(arguments.model)
        self._waiting: deque[Sequence] = deque()
        self._loading: set[Sequence] = set()
        self._running: list[Sequence] = []
        self._tasks: set[asyncio.Task[None]] = set()
        metrics = runtime.metrics
        metrics.gauge("vllm:num_requests_running", lambda: float(len(self._running)))
        metrics.gauge("vllm:num_requests_waiting", lambda: float(len(self._waiting) + len(self._loading)))
        metrics.gauge("vllm:kv_cache_usage_perc", self._usage)

    def submit(self, request: Request) -> Sequence:
        """Queue `request`."""
        sequence = Sequence(request)
        self._waiting.append(sequence)
        self._runtime.wake.set()
        return sequence

    def abort(self, sequence: Sequence) -> None:
        """Drop it: the client has gone."""
        if not sequence.done:
            self._end(sequence, "abort")

    def start(self) -> None:
        """Begin to step."""
        self._spawn(self._run())

    async def close(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        """Step while there is work, sleep while there is none."""
        while True:
            await self._runtime.wake.wait()
            self._admit()
            if not (batch := self._batch()):
                self._runtime.wake.clear()
                continue
            prefill = sum(tokens for sequence, tokens in batch if sequence.remaining)
            await self._runtime.pace.step(prefill, len(batch))
            await self._runtime.faults.not_hung()
            await self._advance(batch)

    def _admit(self) -> None:
        """First come, first served, up to --max-num-seqs and the KV cache's room."""
        while (
            self._waiting and len(self._running) + len(self._loading) < self._runtime.arguments.max_num_seqs
        ):
            if self._reserved() + self._waiting[0].room > self._capacity:
                return
            sequence = self._waiting.popleft()
            sequence.started = time.monotonic()
            sequence.local, sequence.state = self._prefixes.lookup(sequence.request.prompt, self._start_state)
            sequence.computed = sequence.covered = sequence.local
            if self._connector.loads(sequence.request):
                self._loading.add(sequence)
                self._spawn(self._load(sequence))
            else:
                self._running.append(sequence)

    async def _load(self, sequence: Sequence) -> None:
        """Ask the connector for KV, beside the steps of the others."""
        try:
            loaded = await self._connector.load(sequence.request, sequence.local)
        except KVError as error:
            if not sequence.done:
                self._end(sequence, "error", error=f"KV load failure: {error}")
            return
        if sequence.done:
            return
        if loaded:
            self._take_in(sequence, loaded)
        self._loading.discard(sequence)
        self._running.append(sequence)
        self._runtime.wake.set()

    def _take_in(self, sequence: Sequence, loaded: Loaded) -> None:
        sequence.external = loaded.tokens
        sequence.covered, sequence.state = loaded.covered, loaded.state
        # At least one token is computed here, for the logits of the first new one.
        sequence.computed = min(sequence.local + loaded.tokens, len(sequence.request.prompt) - 1)

    def _batch(self) -> list[tuple[Sequence, int]]:
        """The sequences of the next step with the tokens each computes: decodes first, then prefill."""
        budget = self._runtime.arguments.max_num_batched_tokens
        batch = [(sequence, 1) for sequence in self._running if not sequence.remaining]
        budget -= len(batch)
        for sequence in self._running:
            if sequence.remaining and budget > 0:
                tokens = min(sequence.remaining, budget)
                batch.append((sequence, tokens))
                budget -= tokens
        return batch

    async def _advance(self, batch: list[tuple[Sequence, int]]) -> None:
        """What the step brought; sequences aborted meanwhile get nothing."""
        self._runtime.metrics.observe("vllm:iteration_tokens_total", sum(tokens for _, tokens in batch))
        for sequence, tokens in batch:
            if sequence.done:
                continue
            if sequence.remaining:
                sequence.computed += tokens
                sequence.prefill_steps += 1
                if sequence.remaining:
                    continue
                self._finish_prefill(sequence)
                await self._save(sequence)
            self._sample(sequence)

    def _finish_prefill(self, sequence: Sequence) -> None:
        prompt = sequence.request.prompt
        sequence.state = text.extend(sequence.state, prompt[sequence.covered :])
        sequence.prompt_state = sequence.state
        self._prefixes.insert(prompt, self._start_state)
        has_connector = bool(self._runtime.transfer.connector)
        record_prefill(self._runtime.metrics, sequence, has_connector=has_connector)

    def _sample(self, sequence: Sequence) -> None:
        """One more token, and the end if it is the last."""
        request, made = sequence.request, len(sequence.tokens)
        early = made < request.min_tokens
        eos_every = self._runtime.parameters.eos_every
        token = text.next_token(
            sequence.state, eos_every=eos_every, may_end=not (request.ignore_eos or early)
        )
        sequence.tokens.append(token)
        sequence.state = text.extend(sequence.state, (token,))
        record_token(self._runtime.metrics, sequence)
        if token in request.stop_token_ids and not early:
            return self._end(sequence, "stop", stop_reason=token)
        stop = sequence.transcript.add(text.decode((token,)), may_stop=not early)
        if token == text.EOS or stop is not None:
            return self._end(sequence, "stop", stop_reason=stop)
        if made + 1 == request.max_tokens:
            return self._end(sequence, "length")
        sequence.outputs.put_nowait(Output(sequence.transcript.take(final=False), tokens=made + 1))

    async def _save(self, sequence: Sequence) -> None:
        """Within the step or beside it, as the connector has it."""
        if self._connector.blocking:
            await self._connector.save(sequence)
        else:
            self._spawn(self._connector.save(sequence))

    def _end(
        self,
        sequence: Sequence,
        finish: str,
        *,
        stop_reason: str | int | None = None,
        error: str | None = None,
    ) -> None:
        """Take it out of the engine and tell whoever waits for it."""
        sequence.done, sequence.finish = True, finish
        sequence.answer = self._connector.answer(sequence)
        for place in (self._waiting, self._running):
            if sequence in place:
                place.remove(sequence)
        self._loading.discard(sequence)
        record_finish(self._runtime.metrics, sequence)
        shown = sequence.transcript.take(final=True)
        sequence.outputs.put_nowait(Output(shown, finish, stop_reason, error, len(sequence.tokens)))
        self._runtime.wake.set()

    def _reserved(self) -> int:
        """KV tokens that running sequences may come to need; a real engine takes blocks as it goes."""
        running = sum(sequence.room for sequence in (*self._running, *self._loading))
        return running + self._connector.held_tokens()

    def _usage(self) -> float:
        used = sum(sequence.computed + len(sequence.tokens) for sequence in self._running)
        return (used + self._connector.held_tokens()) / self._capacity

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._settle)

    def _settle(self, task: asyncio.Task[None]) -> None:
        """Whatever goes wrong in a part of the engine ends the engine."""
        self._tasks.discard(task)
        if task.cancelled() or not (error := task.exception()):
            return
        if not isinstance(error, EngineDeadError):
            log.error("Traceback of the simulator itself:", exc_info=error)
        self._runtime.faults.kill(str(error) or type(error).__name__)
