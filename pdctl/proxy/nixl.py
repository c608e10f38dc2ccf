"""The NIXL connector: the prefiller keeps the KV and says where it is, the decoder reads it from there.

Bodies go to both legs as the client sent them, chat included; what the prefiller returns is opaque.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from .bodies import nixl_params, prefill_body
from .exchange import Exchange
from .gateway import Gateway
from .member import Use
from .relay import relay


@dataclass(frozen=True)
class Kept:
    """KV on a prefiller, in use until a decoder has read it (then it begins to answer), and how to get it."""

    params: Any
    use: Use


async def serve(gateway: Gateway, exchange: Exchange) -> web.StreamResponse:
    kept = await gateway.legs.retrying(lambda avoid: prefill(gateway, exchange, avoid))
    try:
        return await gateway.legs.retrying(lambda avoid: decode(gateway, exchange, kept, avoid))
    finally:
        kept.use.end()


async def prefill(gateway: Gateway, exchange: Exchange, avoid: Collection[str]) -> Kept:
    """Not without somebody to decode: a prefiller would work for nothing."""
    use = await gateway.admission.choose("prefiller", avoid, needing="decoder")
    exchange.served_by["prefiller"] = use.member.name
    try:
        body = prefill_body(exchange.body, nixl_params())
        answer = await gateway.legs.prefill(use.member, exchange.path, body, exchange.leg_headers())
        gateway.fleet.succeeded(use.member)
        return Kept(answer.get("kv_transfer_params"), use.member.hold())
    finally:
        use.end()


async def decode(
    gateway: Gateway, exchange: Exchange, kept: Kept, avoid: Collection[str]
) -> web.StreamResponse:
    """Another decoder can read the same KV, so a retry needs no second prefill.

    A prefiller that finished with `stop` keeps none and returns no params: the decoder then computes the
    prompt itself (vLLM 0.11.0 nixl_connector.py).
    """
    use = await gateway.admission.choose("decoder", avoid, kept.use.member)
    exchange.served_by["decoder"] = use.member.name
    body = {**exchange.body, "kv_transfer_params": kept.params} if kept.params else exchange.body
    try:
        async with gateway.legs.decode(use.member, exchange.path, body, exchange.leg_headers()) as leg:
            return await relay(exchange, leg, consumed=kept.use.end)
    finally:
        use.end()
