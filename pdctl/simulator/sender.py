"""A prefiller's computed prompt -> chunks in the decoder's PD buffer, then a notification of each rank."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import zmq
import zmq.asyncio

from . import text, wire
from .connector import Loaded
from .errors import EngineDeadError, KVError, StartError
from .kv import Chunk
from .lmcache import LMCache
from .pace import GIB
from .runtime import Runtime
from .sequence import Request
from .sequence import Sequence as Running

log = logging.getLogger("lmcache")


class Sender:
    """LMCache's connector in the role `kv_producer`."""

    def __init__(self, config: LMCache, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        self._peers: dict[tuple[str, int], str] = {}  # LMCache 0.3.10 to 0.5.6 never drops one
        self._notify: list[zmq.asyncio.Socket] = []

    @property
    def blocking(self) -> bool:
        """Whether the transfer runs inside the step."""
        return self._config.blocking

    async def start(self) -> None:
        """Connect to the proxy, lazily: it need not be there yet."""
        if not self._config.pd:
            return
        address = f"tcp://{self._config.values['pd_proxy_host']}:{self._config.values['pd_proxy_port']}"
        for _ in range(self._config.ranks):
            socket = self._runtime.context.socket(zmq.PUSH)
            socket.linger = 0
            try:
                socket.connect(address)
            except zmq.ZMQError as error:
                raise StartError(f"cannot connect to {address}: {error}") from error
            self._notify.append(socket)

    def loads(self, request: Request) -> bool:
        """A producer never loads."""
        return False

    async def load(self, request: Request, cached: int) -> Loaded | None:
        """A producer never loads."""
        return None

    async def save(self, sequence: Running) -> None:
        """Send the prompt's KV where the request says."""
        spec = sequence.request.kv.get("disagg_spec")
        if not self._config.pd:
            return
        if not isinstance(spec, dict):
            if self._config.version < (0, 3, 11):  # fixed in 0.3.11
                raise EngineDeadError("AttributeError: 'NoneType' object has no attribute 'receiver_host'")
            return
        chunks = self._chunks(sequence.request.prompt)
        if not chunks:
            log.info("Reqid: %s, nothing to store: the prompt is shorter than a chunk", spec.get("req_id"))
            return
        began = time.monotonic()
        try:
            pushes = self._pushes(chunks, sequence.prefill_steps)
            ranks = range(self._config.ranks)
            await asyncio.gather(*(self._save_rank(rank, spec, pushes) for rank in ranks))
        except KVError as error:
            if self.blocking:
                raise EngineDeadError(f"RuntimeError: {error}") from error
            log.error(
                "Reqid: %s, KV was not sent, the proxy gets no notification: %s", spec.get("req_id"), error
            )
            return
        self._count(chunks[-1].end, len(sequence.request.prompt), time.monotonic() - began)

    def answer(self, sequence: Running) -> dict[str, Any] | None:
        """The first token, for a proxy that appends it to the decoder's prompt."""
        wanted = sequence.request.kv.get("ret_first_tok")
        return {"first_tok": sequence.tokens[0]} if wanted and sequence.tokens else None

    def held_tokens(self) -> int:
        """None: the sender's PD buffer lies outside the KV cache."""
        return 0

    async def close(self) -> None:
        """Drop the notification sockets."""
        for socket in self._notify:
            socket.close()

    def _chunks(self, prompt: Sequence[int]) -> list[Chunk]:
        chunks = list(self._config.keys.chunks(prompt, partial=self._config.partial_chunks))
        if len(chunks) > self._config.slots:
            log.warning("Local cpu memory under pressure: the first %d chunks are sent", self._config.slots)
        return chunks[: self._config.slots]

    def _pushes(self, chunks: list[Chunk], steps: int) -> list[list[Chunk]]:
        """With several ranks a split prompt is sent again from its beginning at each step.

        The progress lives in an object of which each worker has a copy (LMCache 0.3.10 and 0.5.6). The old
        receiver references the chunks once more; the async one is told a number of chunks and refuses more.
        """
        if self._config.ranks == 1 or steps == 1:
            return [chunks]
        if not self.blocking:
            raise KVError(
                f"the receiver got more chunks than announced: the prompt took {steps} prefill steps"
            )
        return [chunks[: max(1, len(chunks) * step // steps)] for step in range(1, steps + 1)]

    async def _save_rank(self, rank: int, spec: Mapping[str, Any], pushes: list[list[Chunk]]) -> None:
        host = str(spec["receiver_host"])
        init_ports, alloc_ports = _ports(spec, "receiver_init_port"), _ports(spec, "receiver_alloc_port")
        if rank >= min(len(init_ports), len(alloc_ports)):
            raise EngineDeadError(f"IndexError: list index out of range: no receiver port for rank {rank}")
        agent = await self._handshake(host, init_ports[rank])
        for chunks in pushes:
            await self._push(rank, host, alloc_ports[rank], agent, str(spec["req_id"]), chunks)
        if not (
            self._config.values["pd_backend_mode"] == "sync"
            and self._config.values["pd_skip_proxy_notification"]
        ):
            await self._notify[rank].send(wire.pack({"type": "ProxyNotif", "req_id": str(spec["req_id"])}))

    async def _handshake(self, host: str, port: int) -> str:
        """The receiver's agent; with `stale_peers` asked for once. Without a time limit, as the real one."""
        if not self._runtime.parameters.stale_peers or (host, port) not in self._peers:
            answer = await wire.ask(self._runtime.context, host, port, {"type": "NixlInitRequest"})
            self._peers[host, port] = str(answer["agent"])
        return self._peers[host, port]

    async def _push(
        self, rank: int, host: str, port: int, agent: str, request_id: str, chunks: list[Chunk]
    ) -> None:
        keys = [self._config.keys.key(rank, chunk) for chunk in chunks]
        given = await wire.ask(
            self._runtime.context, host, port, {"type": "AllocRequest", "req_id": request_id, "keys": keys}
        )
        if -1 in given["remote_indexes"]:
            raise KVError(f"{host}:{port} allocates nothing: {given.get('reason', '')}")
        if given["agent"] != agent:
            if not self.blocking:
                await wire.ask(self._runtime.context, host, port, {"type": "CancelNotif", "keys": keys})
            raise KVError(
                f"NIXL transfer to {host}:{port} failed with status ERR: the receiver was restarted"
            )
        await self._runtime.pace.transfer(self._config.chunk_bytes * len(chunks))
        corrupt = self._runtime.faults.now.corrupt_kv
        states = [text.garbled(chunk.state) if corrupt else chunk.state for chunk in chunks]
        await wire.ask(self._runtime.context, host, port, {"type": "Write", "keys": keys, "states": states})

    def _count(self, stored: int, total: int, seconds: float) -> None:
        rate = stored * self._config.chunk_bytes * self._config.ranks / self._config.values["chunk_size"]
        log.info("Storing KV cache for %d out of %d tokens", stored, total)
        log.info(
            "Stored %d out of total %d tokens. cost %.4f ms, throughput: %.4f GB/s (simulated)",
            stored,
            total,
            seconds * 1000,
            rate / GIB / max(seconds, 1e-9),
        )
        self._runtime.metrics.count("lmcache:num_store_requests")
        self._runtime.metrics.count("lmcache:num_stored_tokens", stored)
        self._runtime.metrics.observe("lmcache:time_to_store", seconds)


def _ports(spec: Mapping[str, Any], key: str) -> list[int]:
    ports = spec.get(key)
    return [int(port) for port in ports] if isinstance(ports, list) else [int(ports or 0)]
