"""Prompt tokens -> keys of KV chunks, and what holds KV: a decoder's PD buffer, an own prefix cache."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import text

log = logging.getLogger("lmcache")


@dataclass(frozen=True)
class Chunk:
    """One chunk of a prompt: its place, its hash over everything before it, and what stands for its KV."""

    start: int
    end: int
    digest: str
    state: int


@dataclass(frozen=True)
class KeySpace:
    """What must agree on both sides for a key to be found; LMCache builds its keys of the same parts."""

    model: str
    world: int
    dtype: str
    hash_name: str  # hash algorithm and, for Python's own, its seed
    chunk_size: int
    prefix: str  # "vllm@" until LMCache dropped it

    def key(self, rank: int, chunk: Chunk) -> str:
        """The key of `chunk` at tensor-parallel rank `rank`."""
        return f"{self.prefix}{self.model}@{self.world}@{rank}@{chunk.digest}@{self.dtype}"

    def chunks(self, prompt: Sequence[int], *, partial: bool) -> Iterator[Chunk]:
        """The chunks of `prompt`; the last one may be partial, or is left out."""
        digest, state = self.hash_name.encode(), text.empty_state(self.model)
        for start in range(0, len(prompt), self.chunk_size):
            tokens = prompt[start : start + self.chunk_size]
            if len(tokens) < self.chunk_size and not partial:
                return
            digest = hashlib.blake2b(digest + array("q", tokens).tobytes(), digest_size=16).digest()
            state = text.extend(state, tokens)
            yield Chunk(start, start + len(tokens), digest.hex(), state)


class NeverFitsError(Exception):
    """More chunks at once than the buffer has slots."""


@dataclass
class Entry:
    """One slot in use."""

    slot: int
    references: int = 1
    state: int | None = None  # None until the sender has written it


class Buffer:
    """A decoder's PD buffer at one rank: no eviction and no expiry, as in LMCache 0.3.10 to 0.5.6."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.entries: dict[str, Entry] = {}
        self._free = list(range(slots - 1, -1, -1))
        self._changed = asyncio.Condition()

    async def allocate(self, keys: Sequence[str]) -> list[int]:
        """A slot for each key, waiting while too few are free; keys already here are referenced once more."""
        async with self._changed:
            if len(set(keys)) > self.slots:
                raise NeverFitsError(f"{len(keys)} chunks do not fit into {self.slots} slots")
            if not self._has_room(keys):
                log.warning("Failed to allocate memory object, retrying: the PD buffer is full")
            await self._changed.wait_for(lambda: self._has_room(keys))
            for key in keys:
                if key in self.entries:
                    self.entries[key].references += 1
                else:
                    self.entries[key] = Entry(self._free.pop())
        return [self.entries[key].slot for key in keys]

    def write(self, key: str, state: int) -> None:
        """What the sender's NIXL WRITE does."""
        if key in self.entries:
            self.entries[key].state = state

    def read(self, key: str) -> int | None:
        """The KV under `key`, if it was written."""
        entry = self.entries.get(key)
        return entry.state if entry else None

    async def release(self, keys: Sequence[str]) -> None:
        """Give up one reference of each key; slots without any become free."""
        async with self._changed:
            for key in keys:
                if not (entry := self.entries.get(key)):
                    continue
                entry.references -= 1
                if entry.references == 0:
                    self._free.append(self.entries.pop(key).slot)
            self._changed.notify_all()

    def _has_room(self, keys: Sequence[str]) -> bool:
        return len(set(keys) - self.entries.keys()) <= len(self._free)


class PrefixCache:
    """vLLM's own cache of whole blocks of earlier prompts, least recently used out first."""

    def __init__(self, block_size: int, blocks: int, enabled: bool) -> None:
        self._block = block_size
        self._limit = blocks if enabled else 0
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def lookup(self, prompt: Sequence[int], state: int) -> tuple[int, int]:
        """How many leading tokens are cached, and their KV; never all, as the last must be computed."""
        cached = 0
        while cached + self._block < len(prompt) and self._limit:
            following = text.extend(state, prompt[cached : cached + self._block])
            if following not in self._blocks:
                break
            self._blocks.move_to_end(following)
            state, cached = following, cached + self._block
        return cached, state

    def insert(self, prompt: Sequence[int], state: int) -> None:
        """Remember the whole blocks of `prompt`."""
        if not self._limit:
            return
        for start in range(0, len(prompt) - self._block + 1, self._block):
            state = text.extend(state, prompt[start : start + self._block])
            self._blocks[state] = None
            self._blocks.move_to_end(state)
        while len(self._blocks) > self._limit:
            self._blocks.popitem(last=False)
