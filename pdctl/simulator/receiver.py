"""A decoder's PD buffer, filled over the network, and its lookup by prompt."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import Any

from . import text
from .connector import Loaded
from .kv import Buffer, Chunk, NeverFitsError
from .lmcache import LMCache
from .runtime import Runtime
from .sequence import Request, Sequence
from .wire import Listener, Message

log = logging.getLogger("lmcache")


class Receiver:
    """LMCache's connector in the role `kv_consumer`."""

    blocking = False

    def __init__(self, config: LMCache, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        self._agent = secrets.token_hex(8)  # another one after a restart, which senders must notice
        self._buffers = [Buffer(config.slots) for _ in range(config.ranks)] if config.pd else []
        self._serial = asyncio.Lock()
        self._listeners: list[Listener] = []
        metrics = runtime.metrics
        metrics.gauge("lmcache:active_memory_objs_count", lambda: float(self._used()))
        metrics.gauge("lmcache:local_cache_usage", lambda: float(self._used() * config.chunk_bytes))

    async def start(self) -> None:
        """Bind the init and the alloc port of each rank."""
        values = self._config.values
        for rank, buffer in enumerate(self._buffers):
            host = values["pd_peer_host"]
            init, alloc = values["pd_peer_init_port"][rank], values["pd_peer_alloc_port"][rank]
            self._listeners.append(Listener(self._runtime.context, host, init, self._introduce))
            self._listeners.append(
                Listener(self._runtime.context, host, alloc, _Allocator(self, buffer).answer)
            )

    def loads(self, request: Request) -> bool:
        """Every request is looked up, whatever it says: the KV is found by the prompt."""
        return self._config.pd

    async def load(self, request: Request, cached: int) -> Loaded | None:
        """The KV of the prompt's leading chunks that are in the buffer; they leave it."""
        prompt = request.prompt[: len(request.prompt) - self._config.skip_last_tokens]
        began = time.monotonic()
        hits = self._found(prompt)
        covered = hits[-1].end if hits else 0
        self._count_lookup(request, len(prompt), covered, cached)
        # What the own prefix cache covers is masked out and never fetched: it stays in the buffer for ever.
        fetched = [chunk for chunk in hits if chunk.end > cached]
        if not fetched:
            return None
        state = self._state(fetched[-1])
        for rank, buffer in enumerate(self._buffers):
            await buffer.release([self._config.keys.key(rank, chunk) for chunk in fetched])
        # The last token is computed again, for its logits.
        tokens = min(covered, len(request.prompt) - 1) - cached
        log.info("Retrieved %d out of %d required tokens", tokens, tokens)
        self._runtime.metrics.count("lmcache:num_retrieve_requests")
        self._runtime.metrics.count("lmcache:num_requested_tokens", tokens)
        self._runtime.metrics.count("lmcache:num_hit_tokens", tokens)
        self._runtime.metrics.observe("lmcache:time_to_retrieve", time.monotonic() - began)
        return Loaded(tokens, covered, state)

    async def save(self, sequence: Sequence) -> None:
        """A consumer never saves."""

    def answer(self, sequence: Sequence) -> dict[str, Any] | None:
        """Nothing to say."""
        return None

    def held_tokens(self) -> int:
        """None: the PD buffer lies outside the KV cache."""
        return 0

    async def close(self) -> None:
        """Unbind."""
        for listener in self._listeners:
            await listener.close()

    async def allocate(self, buffer: Buffer, keys: list[str]) -> list[int]:
        """Slots for `keys`; [-1] when there are none to be had."""
        if self._runtime.faults.now.refuse_kv:
            return [-1]
        if self._config.blocking:
            async with self._serial:  # serves nobody else while it waits
                return await _slots_within(buffer, keys, None)
        limit = self._config.values["pd_allocation_timeout_sec"]
        return await _slots_within(buffer, keys, None if limit == float("inf") else limit)

    @property
    def agent(self) -> str:
        """Who this process is to a sender."""
        return self._agent

    async def _introduce(self, message: Message) -> Message:
        return {"type": "NixlInitResponse", "agent": self._agent}

    def _used(self) -> int:
        return sum(len(buffer.entries) for buffer in self._buffers)

    def _found(self, prompt: tuple[int, ...]) -> list[Chunk]:
        """The leading chunks that every rank has."""
        found = []
        for chunk in self._config.keys.chunks(prompt, partial=True):
            if None in self._held(chunk):
                break
            found.append(chunk)
        return found

    def _held(self, chunk: Chunk) -> list[int | None]:
        return [buffer.read(self._config.keys.key(rank, chunk)) for rank, buffer in enumerate(self._buffers)]

    def _state(self, chunk: Chunk) -> int:
        """What the ranks hold of `chunk` together: one wrong rank is enough to make it wrong."""
        wrong = [state for state in self._held(chunk) if state is not None and state != chunk.state]
        state = wrong[0] if wrong else chunk.state
        return text.garbled(state) if self._runtime.faults.now.corrupt_kv else state

    def _count_lookup(self, request: Request, looked_up: int, hit: int, cached: int) -> None:
        log.info(
            "Reqid: %s, Total tokens %d, LMCache hit tokens: %d, need to load: %d",
            request.id,
            len(request.prompt),
            hit,
            max(0, min(hit, len(request.prompt) - 1) - cached),
        )
        self._runtime.metrics.count("lmcache:num_lookup_requests")
        self._runtime.metrics.count("lmcache:num_lookup_tokens", looked_up)
        self._runtime.metrics.count("lmcache:num_lookup_hits", hit)
        if not hit:
            self._runtime.metrics.count("lmcache:lookup_0_hit_requests")


class _Allocator:
    """Answers what comes in on one rank's alloc port."""

    def __init__(self, receiver: Receiver, buffer: Buffer) -> None:
        self._receiver = receiver
        self._buffer = buffer

    async def answer(self, message: Message) -> Message:
        keys = [str(key) for key in message.get("keys", [])]
        if message.get("type") == "Write":
            for key, state in zip(keys, message["states"], strict=True):
                self._buffer.write(key, int(state))
        elif message.get("type") == "CancelNotif":
            await self._buffer.release(keys)
        elif message.get("type") == "AllocRequest":
            slots = await self._receiver.allocate(self._buffer, keys)
            return {"type": "AllocResponse", "remote_indexes": slots, "agent": self._receiver.agent}
        return {"type": "Done"}


async def _slots_within(buffer: Buffer, keys: list[str], seconds: float | None) -> list[int]:
    task = asyncio.get_running_loop().create_task(buffer.allocate(keys))
    try:
        if not (await asyncio.wait({task}, timeout=seconds))[0]:
            log.error("Failed to allocate memory object: the PD buffer is full")
            return [-1]
        return task.result()
    except NeverFitsError as error:
        log.error("Failed to allocate memory object: %s", error)
        return [-1]
    finally:
        task.cancel()
