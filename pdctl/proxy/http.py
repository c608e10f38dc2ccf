"""The proxy's endpoints: what a client or a monitor asks -> what it gets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from aiohttp import web

from . import __version__, aggregated, lmcache, nixl, sse
from .answers import LegError, RefusedError, bad_request, error, too_large, unavailable
from .exchange import Exchange
from .gateway import Gateway
from .member import Member
from .refusals import APPEND, NIXL, ORIGINAL, refused_chat, refused_field

log = logging.getLogger("pdctl.proxy")

GATEWAY = web.AppKey("gateway", Gateway)
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def front(gateway: Gateway) -> web.Application:
    app = web.Application(middlewares=[errors_as_json])
    app[GATEWAY] = gateway
    app.router.add_post("/v1/completions", generate)
    app.router.add_post("/v1/chat/completions", generate)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/health", health)
    app.router.add_get("/ready", ready)
    app.router.add_get("/version", version)
    app.router.add_get("/metrics", metrics)
    return app


def metrics_only(gateway: Gateway) -> web.Application:
    app = web.Application(middlewares=[errors_as_json])
    app[GATEWAY] = gateway
    app.router.add_get("/health", health)
    app.router.add_get("/metrics", metrics)
    return app


async def generate(request: web.Request) -> web.StreamResponse:
    gateway = request.app[GATEWAY]
    exchange = Exchange(request, request.path, {})
    began = asyncio.get_running_loop().time()
    gateway.in_flight += 1
    try:
        return await answered(gateway, exchange)
    finally:
        gateway.in_flight -= 1
        record(gateway, exchange, asyncio.get_running_loop().time() - began)


async def answered(gateway: Gateway, exchange: Exchange) -> web.StreamResponse:
    try:
        exchange.body = await body_of(gateway, exchange)
        response = await served(gateway, exchange)
        exchange.outcome = "upstream_error" if exchange.broken else "ok"
        return response
    except (RefusedError, LegError) as refusal:
        exchange.outcome = refusal.answer.outcome
        exchange.reason = str(refusal)
        return refusal.answer.response(exchange.headers())
    except RecursionError:
        exchange.outcome = "client_error"
        return bad_request("the body is nested too deeply").answer.response(exchange.headers())
    except ConnectionResetError:  # from writing to a client that has gone
        return exchange.response


async def body_of(gateway: Gateway, exchange: Exchange) -> dict[str, Any]:
    if gateway.closing:
        raise unavailable("the proxy is stopping")
    longest = gateway.config.limits.body_bytes
    try:
        # On a clone, since aiohttp fixes an application's limit once and for all.
        body = sse.parsed(await exchange.request.clone(client_max_size=longest).read())
    except web.HTTPRequestEntityTooLarge:
        raise too_large(f"the body is longer than {longest} bytes") from None
    except web.RequestPayloadError as broken:
        raise bad_request("the body cannot be read") from broken
    if not body:
        raise bad_request("the body must be a JSON object")
    if sse.has_lone_surrogate(body):  # engines answer 500, which would count against their health
        raise bad_request("the body holds half of a surrogate pair, which is no text")
    return body


async def served(gateway: Gateway, exchange: Exchange) -> web.StreamResponse:
    config = gateway.config
    if exchange.chat and (reason := refused_chat(config)):
        raise bad_request(reason)
    if config.mode == "aggregated":
        return await aggregated.serve(gateway, exchange)
    leg = NIXL if not config.lmcache else APPEND if config.appends else ORIGINAL
    if found := refused_field(exchange.body, leg):
        field, reason = found
        raise bad_request(f"`{field}` cannot be served by a prefiller and a decoder: {reason}", field)
    if config.lmcache:
        return await lmcache.serve(gateway, exchange)
    return await nixl.serve(gateway, exchange)


def record(gateway: Gateway, exchange: Exchange, seconds: float) -> None:
    """One line and one count for every request; never what it said."""
    endpoint = "chat" if exchange.chat else "completions"
    gateway.metrics.count("pdctl_proxy_requests_total", endpoint=endpoint, outcome=exchange.outcome)
    parts = {"id": exchange.id, "endpoint": endpoint, "outcome": exchange.outcome, **exchange.served_by}
    if exchange.tokens is not None:
        parts["prompt_tokens"] = str(exchange.tokens)
    if exchange.reason:
        parts["reason"] = f'"{exchange.reason}"'
    text = " ".join(f"{key}={value}" for key, value in parts.items())
    log.info("request ms=%.0f %s", seconds * 1000, text)


async def models(request: web.Request) -> web.StreamResponse:
    gateway = request.app[GATEWAY]
    authorization = request.headers.get("Authorization")
    headers = {"Authorization": authorization} if authorization else {}
    try:
        answer = await gateway.legs.retrying(
            lambda avoid: gateway.legs.fetch(informant(gateway, avoid), "/v1/models", headers)
        )
    except (RefusedError, LegError) as refusal:
        answer = refusal.answer
    return answer.response({})


def informant(gateway: Gateway, avoid: Collection[str]) -> Member:
    """Whoever is healthy; a drained one too, since this is no work."""
    order = {"server": 0, "decoder": 1, "prefiller": 2}
    found = [member for member in gateway.fleet.members if member.healthy and member.name not in avoid]
    if not found:
        raise unavailable("no healthy instance")
    return min(found, key=lambda member: (order[member.role], member.drained, member.in_flight))


async def health(request: web.Request) -> web.StreamResponse:
    return web.Response()


async def ready(request: web.Request) -> web.StreamResponse:
    gateway = request.app[GATEWAY]
    is_ready = gateway.fleet.ready() and not gateway.closing
    instances = [
        {
            "name": member.name,
            "role": member.role,
            "up": member.up,
            "in_rotation": member.available,
            "drained": member.drained,
            "in_flight": member.in_flight,
            "failures": member.failures,
            "version": member.version,
            "simulated": member.simulated,
        }
        for member in gateway.fleet.members
    ]
    body = {"ready": is_ready, "cluster": gateway.config.cluster, "instances": instances}
    return web.json_response(body, status=200 if is_ready else 503)


async def version(request: web.Request) -> web.StreamResponse:
    members = request.app[GATEWAY].fleet.members
    return web.json_response({"proxy": __version__, "simulated": any(member.simulated for member in members)})


async def metrics(request: web.Request) -> web.StreamResponse:
    text = request.app[GATEWAY].metrics_text()
    return web.Response(body=text.encode(), headers={"Content-Type": METRICS_TYPE})


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """An unknown path or method, in the shape of every other error."""
    try:
        return await handler(request)
    except web.HTTPException as problem:
        answer = error(
            problem.status, f"{request.method} {request.path}: {problem.reason}", "invalid_request_error"
        )
        return answer.response({"Allow": problem.headers["Allow"]} if "Allow" in problem.headers else {})
