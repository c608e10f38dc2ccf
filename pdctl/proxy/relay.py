"""A decode leg -> the client: event by event, in one piece, or collected from a stream into one piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from . import merging, sse
from .answers import LegError, error_object
from .exchange import Exchange
from .legs import Leg

Edit = Callable[[bytes], bytes]
Consumed = Callable[[], None]


def unchanged(event: bytes) -> bytes:
    return event


def nothing() -> None:
    """Nobody waits for the first byte."""


async def relay(
    exchange: Exchange,
    leg: Leg,
    *,
    edit: Edit = unchanged,
    opening: bytes = b"",
    consumed: Consumed = nothing,
) -> web.StreamResponse:
    """Pass on what the engine sends, as a stream if it streams.

    `consumed` is called at its first event, unless that is an error: then the KV may never have been fetched.
    """
    if leg.is_stream:
        return await stream(exchange, leg, edit, opening, consumed)
    body = await leg.read()
    if b"error" in body and sse.has_error(sse.parsed(body)):
        raise leg.failed("answered 200 with an error inside")
    consumed()
    leg.succeeded()
    return exchange.whole(body, leg.content_type)


async def collect(leg: Leg, consumed: Consumed) -> dict[str, Any]:
    """The stream of a completion as one completion."""
    chunks: list[dict[str, Any]] = []
    done = False
    while events := await leg.events():
        if any(map(sse.reports_error, events)):
            raise leg.failed("reported an error while it was generating")
        consumed()
        for event in events:
            done = done or sse.is_done(event)
            if chunk := sse.document(event):
                chunks.append(chunk)
    if not done:
        raise leg.failed("broke the stream off", retryable=not leg.touched)
    leg.succeeded()
    return merging.merged(chunks)


async def stream(
    exchange: Exchange, leg: Leg, edit: Edit, opening: bytes, consumed: Consumed
) -> web.StreamResponse:
    done = False
    try:
        while events := await leg.events():
            if not exchange.started:
                if not sse.reports_error(events[0]):
                    consumed()
                await exchange.begin()
                await exchange.send(opening)
            if not done:
                done = await send_events(exchange, leg, events, edit)
        if not done:
            raise leg.failed("broke the stream off", retryable=not leg.touched)
        leg.succeeded()
    except LegError as failure:
        if not exchange.started:
            raise
        if not done:
            exchange.broken = True
            exchange.reason = str(failure)
            await exchange.send(sse.encode(error_object(failure.status, str(failure), "upstream_error")))
    return await exchange.end()


async def send_events(exchange: Exchange, leg: Leg, events: list[bytes], edit: Edit) -> bool:
    """Send these events up to the end of the stream; True at its end, LegError at an error in it."""
    sent: list[bytes] = []
    for event in events:
        if sse.reports_error(event):
            await exchange.send(b"".join(sent))
            raise leg.failed("reported an error while it was generating")
        sent.append(edit(event))
        if sse.is_done(event):
            break
    await exchange.send(b"".join(sent))
    return sse.is_done(sent[-1])
