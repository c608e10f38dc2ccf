"""Fake engines on loopback: real HTTP servers and ZeroMQ pushes, that keep account of the KV they hold."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack
import zmq
import zmq.asyncio
from aiohttp import web

Json = dict[str, Any]


@dataclass
class Received:
    path: str
    body: Json
    headers: Mapping[str, str]


Behaviour = Callable[["FakeEngine", web.Request, Json], Awaitable[web.StreamResponse]]


class FakeEngine:
    """The endpoints an engine has beside generating."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.received: list[Received] = []
        self.cancelled = 0
        self.healthy = True
        self.simulated = False
        self.process_start: float | None = 1000.0
        self.behave: Behaviour | None = None
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def generations(self) -> list[Received]:
        return [item for item in self.received if item.path.endswith("completions")]

    async def start(self) -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/{path:.*}", self._post)
        app.router.add_get("/{path:.*}", self._get)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=1024).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _get(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/health":
            return web.Response(status=200 if self.healthy else 503)
        if request.path == "/version":
            return web.json_response({"version": "0.0.1", "simulated": self.simulated})
        if request.path == "/metrics":
            known = self.process_start is not None
            return web.Response(text=f"process_start_time_seconds {self.process_start}\n" if known else "\n")
        if request.path == "/v1/models":
            return web.json_response({"object": "list", "data": [{"id": "m", "served_by": self.name}]})
        return web.Response(status=404)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.received.append(Received(request.path, body, request.headers))
        if request.path == "/tokenize":
            ids = token_ids(body)
            return web.json_response({"tokens": ids, "count": len(ids), "max_model_len": 4096})
        try:
            if self.behave is not None:
                return await self.behave(self, request, body)
            return await self.generate(request, body)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def generate(self, request: web.Request, body: Json) -> web.StreamResponse:
        raise NotImplementedError


class FakeDecoder(FakeEngine):
    """Answers `t0 t1 t2 …`; fetching a prompt frees its KV, as far as it is there."""

    def __init__(self, name: str, init_ports: list[int] | None = None) -> None:
        super().__init__(name)
        self.init_ports = init_ports or []
        self.kv: Counter[tuple[int, ...]] = Counter()
        self.gap_s = 0.0

    def fetch(self, body: Json) -> None:
        """LMCache looks a prompt up without its last token where the proxy has appended one."""
        ids = tuple(token_ids(body))
        for key in (ids, ids[:-1]):
            if self.kv.pop(key, None):
                return

    async def generate(self, request: web.Request, body: Json) -> web.StreamResponse:
        if (body.get("max_tokens") or 16) < 1:
            return refusal(400, "max_tokens must be at least 1")
        self.fetch(body)
        count = body.get("max_completion_tokens") or body.get("max_tokens") or 16
        prompt = len(token_ids(body))
        usage = {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count}
        ident = f"cmpl-{request.headers['X-Request-Id']}"
        head = {"id": ident, "object": "text_completion", "created": 1, "model": "m"}
        if not body.get("stream"):
            text = "".join(f" t{i}" for i in range(count))
            choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "length"}
            return web.json_response({**head, "choices": [choice], "usage": usage})
        response = await stream_to(request)
        for i in range(count):
            end = "length" if i == count - 1 else None
            choice = {"index": 0, "text": f" t{i}", "logprobs": None, "finish_reason": end}
            await response.write(event({**head, "choices": [choice]}))
            if self.gap_s:
                await asyncio.sleep(self.gap_s)
        if (body.get("stream_options") or {}).get("include_usage"):
            await response.write(event({**head, "choices": [], "usage": usage}))
        await response.write(b"data: [DONE]\n\n")
        return response


class FakePrefiller(FakeEngine):
    """Pushes the KV to the decoder it is told, gives one notice a rank, and returns its first token."""

    def __init__(self, name: str, decoders: list[FakeDecoder]) -> None:
        super().__init__(name)
        self.decoders = decoders
        self.notify_address = ""
        self.ranks_silent = 0
        self.notices_first = False
        self.notice_delay_s = 0.0
        self.finish = "length"
        self.first_tok = 77
        self.hang_s = 0.0
        self.params: Json | None = {"do_remote_prefill": True, "remote_block_ids": [[1, 2]], "x": {"y": None}}
        self.remembers = False  # as LMCache does: a decoder's address and process, for ever
        self.peers: dict[str, float | None] = {}
        self._context = zmq.asyncio.Context()
        self._socket: Any = None
        self._later: set[asyncio.Task[None]] = set()

    async def generate(self, request: web.Request, body: Json) -> web.StreamResponse:
        limits = [body[key] for key in ("max_tokens", "max_completion_tokens") if body.get(key) is not None]
        if any(limit < 1 for limit in limits):
            return refusal(400, "max_tokens must be at least 1")
        if "stream_options" in body and not body.get("stream"):
            return refusal(400, "Stream options can only be defined when `stream=True`.")
        if self.hang_s:
            await asyncio.sleep(self.hang_s)
        spec = body["kv_transfer_params"].get("disagg_spec")
        if spec and self.notices_first:
            await self.push(spec, body)
        elif spec:
            task = asyncio.create_task(self.push(spec, body))
            self._later.add(task)
            task.add_done_callback(self._later.discard)
        return web.json_response(self.answer(request, body, spec))

    def answer(self, request: web.Request, body: Json, spec: Json | None) -> Json:
        prompt = len(token_ids(body))
        text = "" if self.finish == "stop" else " first"
        return {
            "id": f"cmpl-{request.headers['X-Request-Id']}",
            "object": "text_completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": self.finish}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1},
            "kv_transfer_params": {"first_tok": self.first_tok} if spec else self.params,
        }

    async def push(self, spec: Json, body: Json) -> None:
        await asyncio.sleep(self.notice_delay_s)
        ranks = len(spec["receiver_init_port"])
        decoder = next(d for d in self.decoders if d.init_ports == spec["receiver_init_port"])
        if self.remembers:
            known = self.peers.setdefault(decoder.name, decoder.process_start)
            if known != decoder.process_start:
                return  # written to nowhere, and nobody is told
        decoder.kv[tuple(token_ids(body))] += 1
        for _ in range(ranks - self.ranks_silent):
            await self.send(msgpack.packb({"type": "ProxyNotif", "req_id": spec["req_id"]}))

    async def send(self, payload: bytes) -> None:
        if self._socket is None:
            self._socket = self._context.socket(zmq.PUSH)
            self._socket.connect(self.notify_address)
        await self._socket.send(payload)

    async def stop(self) -> None:
        await super().stop()
        for task in tuple(self._later):
            task.cancel()
        self._context.destroy(linger=0)


def token_ids(body: Json) -> list[int]:
    """The fake tokenizer: a word is a token, numbered by its letters; a chat message is its words."""
    prompt = body.get("prompt")
    if isinstance(prompt, list):
        return prompt
    text = prompt or " ".join(message["content"] for message in body.get("messages", ()))
    return [sum(word.encode()) for word in text.split()]


def event(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def refusal(status: int, message: str, **headers: str) -> web.Response:
    return web.json_response({"error": {"message": message, "code": status}}, status=status, headers=headers)


async def stream_to(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


async def hang(engine: FakeEngine, request: web.Request, body: Json) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def cut(engine: FakeEngine, request: web.Request, body: Json) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def answering(status: int, message: str, **headers: str) -> Behaviour:
    async def behave(engine: FakeEngine, request: web.Request, body: Json) -> web.StreamResponse:
        return refusal(status, message, **headers)

    return behave


def streaming(*events: bytes) -> Behaviour:
    async def behave(engine: FakeEngine, request: web.Request, body: Json) -> web.StreamResponse:
        response = await stream_to(request)
        for item in events:
            await response.write(item)
        return response

    return behave
