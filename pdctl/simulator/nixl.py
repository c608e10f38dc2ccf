"""vLLM's NixlConnector: a prefiller keeps the KV of finished prompts until a decoder reads it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import text, wire
from .connector import Loaded
from .errors import KVError, StartError
from .parameters import version
from .runtime import Runtime
from .sequence import Request, Sequence

log = logging.getLogger("nixl")


@dataclass(frozen=True)
class SideChannel:
    """Where this instance listens and how long it keeps unread KV."""

    host: str
    port: int
    listeners: int
    lease_s: float
    report_s: float  # time between two lines of statistics


def read_side_channel(environ: Mapping[str, str], runtime: Runtime) -> SideChannel:
    """The side channel's settings, known of 0.11.0 and 0.33.0; versions between are taken for the newer."""
    old = _is_old(runtime)
    lease: Any = runtime.transfer.extra.get("kv_lease_duration", 30)
    if version(runtime.parameters.vllm_version) < (0, 20):
        lease = environ.get("VLLM_NIXL_ABORT_REQUEST_TIMEOUT", 120)
    try:
        return SideChannel(
            host=environ.get("VLLM_NIXL_SIDE_CHANNEL_HOST", "localhost"),
            port=int(environ.get("VLLM_NIXL_SIDE_CHANNEL_PORT", 5557 if old else 5600)),
            listeners=runtime.arguments.ranks if old else 1,
            lease_s=float(lease),
            report_s=max(0.1, float(environ.get("VLLM_LOG_STATS_INTERVAL", 10))),
        )
    except (TypeError, ValueError) as error:
        raise StartError(f"ValueError: NIXL side channel: {error}") from error


@dataclass(frozen=True)
class _Held:
    """KV of a finished prompt."""

    tokens: int
    state: int
    expiry: asyncio.TimerHandle


class Nixl:
    """The connector in any of its roles."""

    blocking = False

    def __init__(self, channel: SideChannel, runtime: Runtime) -> None:
        self._channel = channel
        self._runtime = runtime
        self._engine_id = runtime.transfer.engine_id or secrets.token_hex(16)
        self._held: dict[str, _Held] = {}
        self._listeners: list[wire.Listener] = []
        self._reads = 0  # since the last line of statistics
        self._reporter: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Bind the side channel."""
        if _is_old(self._runtime):  # has no metrics of its reads
            self._reporter = asyncio.get_running_loop().create_task(self._report())
        for rank in range(self._channel.listeners):
            port = self._channel.port + rank
            self._listeners.append(
                wire.Listener(self._runtime.context, self._channel.host, port, self._hand_out)
            )

    def loads(self, request: Request) -> bool:
        """Only what the request points at."""
        return self._runtime.transfer.loads and bool(request.kv.get("do_remote_prefill"))

    async def load(self, request: Request, cached: int) -> Loaded | None:
        """Read the prompt's KV from the prefiller that the request names."""
        try:
            answer = await self._ask(request.kv)
        except KVError:
            self._runtime.metrics.count("vllm:nixl_num_failed_transfers")
            if self._runtime.transfer.recompute_on_failure:
                log.warning("Request %s: the KV cannot be read, the prompt is computed here", request.id)
                return None
            raise
        covered = min(int(answer["tokens"]), len(request.prompt))
        if covered <= cached:
            return None
        one_token = self._runtime.parameters.kv_bytes_per_token * self._runtime.arguments.ranks
        size = (covered - cached) * one_token
        seconds = await self._runtime.pace.transfer(size)
        self._runtime.metrics.observe("vllm:nixl_xfer_time_seconds", seconds)
        self._runtime.metrics.observe("vllm:nixl_bytes_transferred", size)
        self._reads += self._runtime.arguments.ranks
        state = int(answer["state"])
        if self._runtime.faults.now.corrupt_kv:
            state = text.garbled(state)
        return Loaded(covered - cached, covered, state)

    async def save(self, sequence: Sequence) -> None:
        """Nothing is sent: the decoder reads."""

    def answer(self, sequence: Sequence) -> dict[str, Any] | None:
        """Where the decoder finds the KV; nothing when the text ended with the first token, as in 0.11.0."""
        request = sequence.request
        wanted = self._runtime.transfer.sends and request.kv.get("do_remote_decode")
        if not wanted or sequence.finish != "length":
            return None
        key = f"{request.id}-{secrets.token_hex(4)}"  # a client may use one id twice
        expiry = asyncio.get_running_loop().call_later(self._channel.lease_s, self._expire, key)
        self._held[key] = _Held(len(request.prompt), sequence.prompt_state, expiry)
        old = _is_old(self._runtime)
        blocks = list(range(-(-len(request.prompt) // self._runtime.arguments.block_size)))
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_engine_id": self._engine_id,
            "remote_block_ids": blocks if old else [blocks],
            "remote_host": self._channel.host,
            "remote_port": self._channel.port,
            "tp_size": self._runtime.arguments.ranks,
            "remote_request_id": key,
            **({} if old else {"remote_num_tokens": len(request.prompt), "transfer_mode": "pull"}),
        }

    def held_tokens(self) -> int:
        """Blocks that wait for a decoder."""
        return sum(held.tokens for held in self._held.values())

    async def close(self) -> None:
        """Unbind and forget."""
        for held in self._held.values():
            held.expiry.cancel()
        if self._reporter:
            self._reporter.cancel()
        for listener in self._listeners:
            await listener.close()

    async def _report(self) -> None:
        """What the periodic statistics of 0.11.0 say of reads."""
        while True:
            await asyncio.sleep(self._channel.report_s)
            if self._reads:
                log.info("KV Transfer metrics: num_successful_transfers=%d", self._reads)
                self._reads = 0

    async def _ask(self, kv: Mapping[str, Any]) -> wire.Message:
        host, port = kv.get("remote_host"), kv.get("remote_port")
        if not isinstance(host, str) or not isinstance(port, int):
            raise KVError(f"kv_transfer_params name no prefiller: remote_host {host!r}, remote_port {port!r}")
        question = {
            "type": "Read",
            "engine_id": kv.get("remote_engine_id"),
            "request_id": kv.get("remote_request_id"),
            "compatible": self._compatibility(),
        }
        answer = await wire.ask(
            self._runtime.context, host, port, question, self._runtime.parameters.handshake_timeout_s
        )
        if "error" in answer:
            raise KVError(f"{host}:{port}: {answer['error']}")
        return answer

    async def _hand_out(self, message: wire.Message) -> wire.Message:
        """Answer a decoder: its blocks, which are free afterwards."""
        if self._runtime.faults.now.refuse_kv:
            return {"error": "refused, as told"}
        if message.get("engine_id") != self._engine_id:
            return {"error": f"engine id mismatch: {message.get('engine_id')} is not {self._engine_id}"}
        if message.get("compatible") != self._compatibility():
            return {
                "error": f"handshake compatibility: {message.get('compatible')} != {self._compatibility()}"
            }
        held = self._held.pop(str(message.get("request_id")), None)
        if held is None:
            return {"error": f"no KV for request {message.get('request_id')}: expired or already read"}
        held.expiry.cancel()
        self._runtime.wake.set()
        state = text.garbled(held.state) if self._runtime.faults.now.corrupt_kv else held.state
        return {"tokens": held.tokens, "state": state}

    def _expire(self, key: str) -> None:
        log.warning("Releasing expired KV blocks for request %s: no decoder read them", key)
        self._runtime.metrics.count("vllm:nixl_num_kv_expired_reqs")
        del self._held[key]
        self._runtime.wake.set()

    def _compatibility(self) -> str:
        """What must agree on both sides; the real one hashes this and more."""
        chosen = self._runtime.arguments
        release = self._runtime.parameters.vllm_version
        return f"vllm {release} {chosen.model} {chosen.kv_dtype} block {chosen.block_size}"


def _is_old(runtime: Runtime) -> bool:
    return version(runtime.parameters.vllm_version) < (0, 12)
