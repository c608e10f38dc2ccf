"""Aggregated mode: the least loaded server answers, the proxy only passes on."""

from __future__ import annotations

from collections.abc import Collection

from aiohttp import web

from .exchange import Exchange
from .gateway import Gateway
from .relay import relay


async def serve(gateway: Gateway, exchange: Exchange) -> web.StreamResponse:
    async def attempt(avoid: Collection[str]) -> web.StreamResponse:
        server = gateway.fleet.pick("server", avoid)
        exchange.served_by["server"] = server.name
        with server.busy():
            headers = exchange.leg_headers()
            async with gateway.legs.decode(server, exchange.path, exchange.body, headers) as leg:
                return await relay(exchange, leg)

    return await gateway.legs.retrying(attempt)
