"""Aggregated mode: the least loaded server answers, the proxy only passes on."""

from __future__ import annotations

from collections.abc import Collection

from aiohttp import web

from .exchange import Exchange
from .gateway import Gateway
from .relay import relay


async def serve(gateway: Gateway, exchange: Exchange) -> web.StreamResponse:
    async def attempt(avoid: Collection[str]) -> web.StreamResponse:
        use = await gateway.admission.choose("server", avoid)
        exchange.served_by["server"] = use.member.name
        try:
            headers = exchange.leg_headers()
            async with gateway.legs.decode(use.member, exchange.path, exchange.body, headers) as leg:
                return await relay(exchange, leg)
        finally:
            use.end()

    return await gateway.legs.retrying(attempt)
