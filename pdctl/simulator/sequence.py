"""One request on its way through the engine: what was asked, how far it is, and what comes out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .transcript import Transcript


@dataclass(frozen=True)
class Request:
    """What the engine needs to know of a request."""

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    keep_stop: bool = False
    kv: Mapping[str, Any] = field(default_factory=dict)  # kv_transfer_params


@dataclass(frozen=True)
class Output:
    """What one step brought; the last one has `finish` or `error`."""

    text: str = ""
    finish: str | None = None  # stop, length, abort
    stop_reason: str | int | None = None
    error: str | None = None
    tokens: int = 0  # so far


@dataclass(eq=False)
class Sequence:
    """A request in the engine."""

    request: Request
    arrived: float = field(default_factory=time.monotonic)
    started: float = 0.0
    prefilled: float = 0.0
    last_token: float = 0.0
    computed: int = 0  # prompt tokens whose KV is there
    covered: int = 0  # prompt tokens that `state` stands for
    state: int = 0
    prompt_state: int = 0
    local: int = 0  # prompt tokens from the own prefix cache
    external: int = 0  # prompt tokens from another instance
    prefill_steps: int = 0
    tokens: list[int] = field(default_factory=list)
    finish: str | None = None
    done: bool = False
    answer: dict[str, Any] | None = None  # kv_transfer_params of the response
    outputs: asyncio.Queue[Output] = field(default_factory=asyncio.Queue)
    transcript: Transcript = field(init=False)

    def __post_init__(self) -> None:
        self.transcript = Transcript(self.request.stop, self.request.keep_stop)

    @property
    def remaining(self) -> int:
        """Prompt tokens still to be computed."""
        return len(self.request.prompt) - self.computed

    @property
    def room(self) -> int:
        """KV tokens it may come to need."""
        return len(self.request.prompt) + self.request.max_tokens

    async def stream(self) -> AsyncIterator[Output]:
        """Outputs up to the last."""
        while True:
            output = await self.outputs.get()
            yield output
            if output.finish or output.error:
                return
