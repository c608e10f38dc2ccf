"""The NIXL connector: the prefiller keeps the KV and says where it is, the decoder reads it from there.

Bodies go to both legs as the client sent them, chat included; what the prefiller returns is opaque.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from aiohttp import web

from .bodies import nixl_params, prefill_body
from .exchange import Exchange
from .gateway import Gateway
from .relay import relay


async def serve(gateway: Gateway, exchange: Exchange) -> web.StreamResponse:
    gateway.fleet.require("decoder")  # nobody to decode: say so before a prefiller works for nothing
    params = await gateway.legs.retrying(lambda avoid: prefill(gateway, exchange, avoid))
    return await gateway.legs.retrying(lambda avoid: decode(gateway, exchange, params, avoid))


async def prefill(gateway: Gateway, exchange: Exchange, avoid: Collection[str]) -> Any:
    prefiller = gateway.fleet.pick("prefiller", avoid)
    exchange.served_by["prefiller"] = prefiller.name
    body = prefill_body(exchange.body, nixl_params())
    answer = await gateway.legs.prefill(prefiller, exchange.path, body, exchange.leg_headers())
    gateway.fleet.succeeded(prefiller)
    return answer.get("kv_transfer_params")


async def decode(
    gateway: Gateway, exchange: Exchange, params: Any, avoid: Collection[str]
) -> web.StreamResponse:
    """Another decoder can read the same KV, so a retry needs no second prefill.

    A prefiller that finished with `stop` keeps none and returns no params: the decoder then computes the
    prompt itself (vLLM 0.11.0 nixl_connector.py).
    """
    decoder = gateway.fleet.pick("decoder", avoid)
    exchange.served_by["decoder"] = decoder.name
    body = {**exchange.body, "kv_transfer_params": params} if params else exchange.body
    with decoder.busy():
        async with gateway.legs.decode(decoder, exchange.path, body, exchange.leg_headers()) as leg:
            return await relay(exchange, leg)
