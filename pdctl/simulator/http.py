"""HTTP requests -> the engine, and its outputs -> responses, at the endpoints of a vLLM server."""

from __future__ import annotations

import ipaddress
import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import asdict

from aiohttp import web

from . import NAME, VERSION, replies, text
from .bodies import Ask, chat_prompt, check_model, completion_prompt, read_ask
from .engine import Engine
from .errors import Refused
from .runtime import Runtime
from .sequence import Output, Sequence

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LARGEST_BODY = 2**26  # a prompt of a million token ids


class Endpoints:
    """The endpoints of one instance."""

    def __init__(self, runtime: Runtime, engine: Engine) -> None:
        self._runtime = runtime
        self._engine = engine

    def application(self) -> web.Application:
        """The whole server."""
        app = web.Application(client_max_size=_LARGEST_BODY, middlewares=[self._guard])
        app.on_response_prepare.append(_sign)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/detokenize", self._detokenize)
        for path in ("/health", "/ping"):
            app.router.add_get(path, self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/pdctl/faults", self._show_faults)
        app.router.add_post("/pdctl/faults", self._set_faults)
        return app

    def internal_application(self) -> web.Application:
        """LMCache's internal API, as far as anyone asks it."""
        app = web.Application()
        app.on_response_prepare.append(_sign)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/lmc_version", self._lmcache_version)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the key, and give every error vLLM's JSON shape."""
        key = self._runtime.arguments.api_key
        try:
            # vLLM 0.11.0 guards /v1 only.
            if (
                key
                and request.path.startswith("/v1")
                and request.headers.get("Authorization") != f"Bearer {key}"
            ):
                return web.json_response({"error": "Unauthorized"}, status=401)
            return await handler(request)
        except Refused as error:
            return _error(error)
        except web.HTTPException as error:
            return web.json_response({"detail": error.reason}, status=error.status)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=False)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=True)

    async def _generate(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        prefix = "chatcmpl" if chat else "cmpl"
        request_id = f"{prefix}-{request.headers.get('X-Request-Id') or uuid.uuid4().hex}"
        ask = read_ask(await _body(request), request_id, self._runtime.arguments, chat=chat)
        if self._runtime.faults.fails_prefill():
            raise Refused("told to fail", 500, "InternalServerError")
        sequence = self._engine.submit(ask.request)
        try:
            return await (_stream if ask.stream else _whole)(request, ask, sequence)
        finally:
            self._engine.abort(sequence)  # nothing happens unless the client has gone

    async def _models(self, request: web.Request) -> web.Response:
        arguments = self._runtime.arguments
        common = {"object": "model", "created": 0, "owned_by": NAME, "root": arguments.model, "parent": None}
        rows = [
            {"id": name, **common, "max_model_len": arguments.max_model_len}
            for name in arguments.served_names
        ]
        return web.json_response({"object": "list", "data": rows})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await _body(request)
        if not isinstance(body, dict):
            raise Refused("the body must be a JSON object")
        check_model(body, self._runtime.arguments)
        tokens = chat_prompt(body) if "messages" in body else completion_prompt(body)
        limit = self._runtime.arguments.max_model_len
        return web.json_response(
            {"count": len(tokens), "max_model_len": limit, "tokens": tokens, "token_strs": None}
        )

    async def _detokenize(self, request: web.Request) -> web.Response:
        body = await _body(request)
        if not isinstance(body, dict) or "tokens" not in body:
            raise Refused("`tokens` must be a list of token ids")
        check_model(body, self._runtime.arguments)
        return web.json_response({"prompt": text.decode(completion_prompt({"prompt": body["tokens"]}))})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=503 if self._runtime.faults.now.unhealthy else 200)

    async def _version(self, request: web.Request) -> web.Response:
        imitated = self._runtime.parameters.vllm_version
        return web.json_response(
            {"version": f"{imitated}+simulated", "simulated": True, "simulator": VERSION}
        )

    async def _lmcache_version(self, request: web.Request) -> web.Response:
        return web.json_response(f"{self._runtime.parameters.lmcache_version}+simulated")

    async def _metrics(self, request: web.Request) -> web.Response:
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return web.Response(body=self._runtime.metrics.exposition().encode(), headers={"Content-Type": kind})

    async def _show_faults(self, request: web.Request) -> web.Response:
        return web.json_response(asdict(self._runtime.faults.now))

    async def _set_faults(self, request: web.Request) -> web.Response:
        if not (
            self._runtime.parameters.allow_faults or ipaddress.ip_address(request.remote or "::").is_loopback
        ):
            raise Refused(
                "faults are set from this host only, unless allow_faults is true", 403, "ForbiddenError"
            )
        body = await _body(request)
        if not isinstance(body, dict):
            raise Refused("the body must be a JSON object")
        self._runtime.faults.set(body)
        return await self._show_faults(request)


async def _whole(request: web.Request, ask: Ask, sequence: Sequence) -> web.StreamResponse:
    pieces = []
    last = Output()
    async for last in sequence.stream():
        pieces.append(last.text)
    if last.error:
        raise Refused(last.error, 500, "InternalServerError")
    return web.json_response(replies.whole(ask, sequence, "".join(pieces), last))


async def _stream(request: web.Request, ask: Ask, sequence: Sequence) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    if ask.chat:
        await _event(response, replies.opening(ask))
    last = Output()
    async for last in sequence.stream():
        if last.error:
            await _event(response, replies.error(last.error, 500, "InternalServerError"))
        elif last.text or last.finish:
            await _event(response, replies.part(ask, last))
    if ask.include_usage and not last.error:
        await _event(response, replies.closing_usage(ask, last))
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def _event(response: web.StreamResponse, data: replies.Json) -> None:
    await response.write(b"data: " + json.dumps(data).encode() + b"\n\n")


async def _body(request: web.Request) -> object:
    try:
        body: object = json.loads(await request.read())
    except ValueError as error:
        raise Refused(f"the body is not JSON: {error}") from error
    return body


async def _sign(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = NAME


def _error(error: Refused) -> web.Response:
    return web.json_response(replies.error(error.message, error.status, error.kind), status=error.status)
