"""One request's KV on its way to a decoder, and the promise that it does not stay there.

LMCache's PD buffer has no eviction: KV that was pushed and is never fetched keeps its slots until the decoder
restarts (0.3.10 pd_backend.py). So, whatever ends a request, its prompt is decoded once KV has arrived.
"""

from __future__ import annotations

import logging
from typing import Any

from .admission import Lease
from .answers import LegError, RefusedError
from .bodies import Body, drain_body
from .exchange import Exchange, new_id
from .gateway import Gateway
from .member import Member, Use
from .prompts import Prompt

log = logging.getLogger("pdctl.proxy")

# A prefill that was cut off may have been in its last step: its notices come within a step, or never.
LAST_STEP_S = 5.0


class Transfer:
    def __init__(self, gateway: Gateway, exchange: Exchange, prompt: Prompt, lease: Lease) -> None:
        self.id = exchange.id
        self.arrival = gateway.board.expect(self.id, lease.member.decoder.ranks if prompt.tokens else 0)
        self.first_token: int | None = None
        self._gateway = gateway
        self._exchange = exchange
        self._prompt = prompt
        self._lease = lease
        self._consumed = False
        self._reason = "failed"
        self._may_arrive_s = 0.0  # how long KV may still come if the request ends now
        self._push: Use | None = None  # the prefiller has answered, and may still be sending KV

    @property
    def decoder(self) -> Member:
        return self._lease.member

    @property
    def prefiller(self) -> Member:
        return self._lease.prefill.member

    def prefill_sent(self) -> None:
        self._may_arrive_s = min(LAST_STEP_S, self._gateway.config.limits.notification_s)

    def prefill_refused(self) -> None:
        self._may_arrive_s = 0.0

    def prefill_answered(self) -> None:
        self._may_arrive_s = self._gateway.config.limits.notification_s
        self._pushes()

    def waited(self) -> None:
        self._may_arrive_s = 0.0
        self._pushed()

    def consumed(self) -> None:
        """The decoder has begun to answer, so it has fetched the KV: its slots are free."""
        self._consumed = True
        self._close()

    def because(self, reason: str) -> None:
        self._reason = reason

    def settle(self) -> None:
        """The request is over, however it ended."""
        arriving = self.arrival.count or (self._may_arrive_s and not self.arrival.complete)
        if arriving and not self._consumed:
            self._pushes()
            self._gateway.in_background(self._drain_on_arrival())
        else:
            self._end()

    async def _drain_on_arrival(self) -> None:
        try:
            await self.arrival.wait(self._may_arrive_s)
            self._pushed()
            if self.arrival.count:
                await self._drain()
        finally:
            self._end()

    async def _drain(self) -> None:
        gateway, decoder = self._gateway, self.decoder
        gateway.metrics.count("pdctl_proxy_drains_total", reason=self._reason)
        headers = self._exchange.leg_headers(new_id())  # the aborted decode may still be known by the old id
        try:
            await gateway.legs.ask(
                decoder, self._exchange.path, self._drain_body(), headers, gateway.config.limits.first_byte_s
            )
        except (LegError, RefusedError) as failure:
            gateway.metrics.count("pdctl_proxy_drain_failures_total", decoder=decoder.name)
            log.warning("drain id=%s decoder=%s failed: %s", self.id, decoder.name, failure)

    def _drain_body(self) -> Body:
        body: dict[str, Any] = drain_body(self._exchange.body)
        if self._gateway.config.appends:
            # With skip_last_n_tokens 1 the decoder looks up all but the last token: any token will do there.
            ids = self._prompt.ids or ()
            body["prompt"] = [*ids, ids[-1] if self.first_token is None else self.first_token]
        return body

    def _pushes(self) -> None:
        """Its leg at the prefiller is over; until all notices are there the prefiller is still needed."""
        if self._push is None and not self.arrival.complete:
            self._push = self.prefiller.hold()
        self._lease.prefill.end()

    def _pushed(self) -> None:
        if self._push is not None:
            self._push.end()

    def _close(self) -> None:
        self._gateway.board.forget(self.id)
        self._lease.release()

    def _end(self) -> None:
        self._pushed()
        self._close()
        self._lease.end()
