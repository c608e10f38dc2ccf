"""The LMCache connector: the prefiller pushes the KV to the decoder and gives notice, then it decodes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from aiohttp import web

from . import merging, sse
from .answers import LegError, RefusedError, error
from .bodies import appended_body, lmcache_params, prefill_body, streamed_body, token_limit
from .exchange import Exchange, new_id
from .gateway import Gateway
from .member import Member
from .prompts import Prompt, measure
from .relay import collect, relay
from .transfer import Transfer


async def serve(gateway: Gateway, exchange: Exchange) -> web.StreamResponse:
    prompt = await measure(gateway, exchange)
    exchange.tokens = prompt.tokens
    return await gateway.legs.retrying(lambda avoid: attempt(gateway, exchange, prompt, avoid))


async def attempt(
    gateway: Gateway, exchange: Exchange, prompt: Prompt, avoid: Collection[str]
) -> web.StreamResponse:
    """Both at once: the prefiller must know where to push. A new id: old notices may still come."""
    lease = await gateway.admission.acquire(prompt.slots(gateway.config.chunk_size or 1), avoid)
    exchange.id = new_id()
    transfer = Transfer(gateway, exchange, prompt, lease)
    exchange.served_by |= {"decoder": transfer.decoder.name, "prefiller": transfer.prefiller.name}
    try:
        return await transferred(gateway, exchange, prompt, transfer)
    except asyncio.CancelledError:
        transfer.because("disconnect")
        raise
    finally:
        transfer.settle()


async def transferred(
    gateway: Gateway, exchange: Exchange, prompt: Prompt, transfer: Transfer
) -> web.StreamResponse:
    first = await prefill(gateway, exchange, prompt, transfer)
    if gateway.config.appends and ends_with_first_token(exchange, first):
        transfer.because("answered")
        return await answer_from_prefill(exchange, first)
    await notices(gateway, transfer)
    return await decode(gateway, exchange, prompt, transfer, first)


async def prefill(gateway: Gateway, exchange: Exchange, prompt: Prompt, transfer: Transfer) -> dict[str, Any]:
    appends, prefiller = gateway.config.appends, transfer.prefiller
    body = {**exchange.body, "prompt": list(prompt.ids or ())} if appends else exchange.body
    body = prefill_body(body, lmcache_params(transfer.id, transfer.decoder.decoder))
    transfer.prefill_sent()
    try:
        answer = await gateway.legs.prefill(prefiller, exchange.path, body, exchange.leg_headers())
    except RefusedError:
        transfer.prefill_refused()
        raise
    except LegError as failure:
        if not failure.reached:
            transfer.prefill_refused()
        raise
    transfer.prefill_answered()
    if appends:
        transfer.first_token = first_token(answer, prefiller)
    return answer


def first_token(answer: dict[str, Any], prefiller: Member) -> int:
    params, choices = answer.get("kv_transfer_params"), answer.get("choices")
    token = params.get("first_tok") if isinstance(params, dict) else None
    if type(token) is not int or not isinstance(choices, list) or not choices:
        raise LegError(prefiller.name, prefiller.role, "returned no first token")
    return token


def ends_with_first_token(exchange: Exchange, first: dict[str, Any]) -> bool:
    return token_limit(exchange.body) == 1 or first["choices"][0].get("finish_reason") == "stop"


async def answer_from_prefill(exchange: Exchange, first: dict[str, Any]) -> web.StreamResponse:
    if not exchange.streams:
        return web.json_response(merging.own_answer(first), headers=exchange.headers())
    await exchange.begin()
    await exchange.send(merging.own_stream(first, exchange.stream_options))
    return await exchange.end()


async def notices(gateway: Gateway, transfer: Transfer) -> None:
    limit, prefiller = gateway.config.limits.notification_s, transfer.prefiller
    with gateway.metrics.timed("pdctl_proxy_notification_seconds"):
        complete = await transfer.arrival.wait(limit)
        transfer.waited()
        if not complete:
            decoder = transfer.decoder
            gateway.fleet.transfer_failed(prefiller, decoder)
            gateway.metrics.count("pdctl_proxy_notification_timeouts_total", decoder=decoder.name)
            raise RefusedError(error(504, late(transfer, limit), "timeout_error"))
    gateway.fleet.transferred(prefiller, transfer.decoder)


def late(transfer: Transfer, limit: float) -> str:
    prefiller, decoder, arrival = transfer.prefiller, transfer.decoder, transfer.arrival
    return (
        f"the KV of this prompt did not arrive: {arrival.count} of {arrival.ranks} notices from prefiller "
        f"{prefiller.name} about decoder {decoder.name} within {limit:g} s, {arrival.missing()}"
    )


async def decode(
    gateway: Gateway, exchange: Exchange, prompt: Prompt, transfer: Transfer, first: dict[str, Any]
) -> web.StreamResponse:
    appends, body = gateway.config.appends, exchange.body
    if transfer.first_token is not None:
        body = appended_body(body, prompt.ids or (), transfer.first_token)
    collecting = not exchange.streams and not exchange.chat
    if collecting:
        body = streamed_body(body)
    async with gateway.legs.decode(transfer.decoder, exchange.path, body, exchange.leg_headers()) as leg:
        if collecting and leg.is_stream:
            answer = await collect(leg, transfer.consumed)
            answer = merging.with_first(answer, first["choices"][0].get("text") or "") if appends else answer
            return web.json_response(answer, headers=exchange.headers())
        if not appends:
            return await relay(exchange, leg, consumed=transfer.consumed)
        if not leg.is_stream:
            raise leg.failed("did not stream its answer")
        usage = bool(exchange.stream_options.get("continuous_usage_stats"))
        opening = sse.encode(merging.first_chunk(first, last=False, usage=usage))
        return await relay(
            exchange, leg, edit=merging.usage_event, opening=opening, consumed=transfer.consumed
        )
