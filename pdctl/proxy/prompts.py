"""A client's prompt -> how many tokens it has, and, where the decode leg needs them, which."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from .answers import LegError, bad_request
from .bodies import single_prompt, token_ids, tokenize_body
from .exchange import Exchange
from .gateway import Gateway


@dataclass(frozen=True)
class Prompt:
    tokens: int
    ids: tuple[int, ...] | None

    def slots(self, chunk_size: int) -> int:
        """Every chunk takes a whole slot, a partial last one too (LMCache 0.3.10 memory_management.py)."""
        return -(-self.tokens // chunk_size)


async def measure(gateway: Gateway, exchange: Exchange) -> Prompt:
    """Count the tokens as the engines will: on a prefiller, unless the client sent token ids."""
    if not exchange.chat:
        exchange.body = {**exchange.body, "prompt": single_prompt(exchange.body.get("prompt"))}
        ids = token_ids(exchange.body["prompt"])
        if ids is not None:
            return Prompt(len(ids), tuple(ids))
        if not isinstance(exchange.body["prompt"], str):
            raise bad_request("prompt must be a text or a list of token ids", "prompt")
    return await gateway.legs.retrying(lambda avoid: tokenized(gateway, exchange, avoid))


async def tokenized(gateway: Gateway, exchange: Exchange, avoid: Collection[str]) -> Prompt:
    use = await gateway.admission.choose("prefiller", avoid)
    prefiller = use.member
    exchange.served_by["prefiller"] = prefiller.name
    body, limit = tokenize_body(exchange.body), gateway.config.limits.prefill_s
    try:
        answer = await gateway.legs.ask(prefiller, "/tokenize", body, exchange.leg_headers(), limit)
    finally:
        use.end()
    ids = token_ids(answer.get("tokens"))
    count: Any = answer.get("count") if ids is None else len(ids)
    if type(count) is not int or (ids is None and gateway.config.appends):
        raise LegError(prefiller.name, prefiller.role, "did not say which tokens the prompt has")
    return Prompt(count, None if ids is None else tuple(ids))
