"""What the engine asks of a KV connector, and the connector of an aggregated server, which does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from .sequence import Request, Sequence


@dataclass(frozen=True)
class Loaded:
    """KV from elsewhere: it stands for the first `covered` tokens; `tokens` of them need no computing."""

    tokens: int
    covered: int
    state: int


class Connector(Protocol):
    """The way of KV into and out of this instance."""

    @property
    def blocking(self) -> bool:
        """Whether a save holds up the engine's step."""

    async def start(self) -> None:
        """Bind and connect; StartError when that fails."""

    def loads(self, request: Request) -> bool:
        """Whether `load` may bring something for this request."""

    async def load(self, request: Request, cached: int) -> Loaded | None:
        """Take KV in, behind the first `cached` tokens; KVError when it is there and cannot be read."""

    async def save(self, sequence: Sequence) -> None:
        """Send the KV of a prompt that was just computed."""

    def answer(self, sequence: Sequence) -> dict[str, Any] | None:
        """kv_transfer_params of the response to a finished request."""

    def held_tokens(self) -> int:
        """Tokens of finished requests whose KV still takes room in the KV cache."""

    async def close(self) -> None:
        """Let go of everything."""


class NoConnector:
    """An aggregated server: it computes its prompts and keeps its KV."""

    blocking = False

    async def start(self) -> None:
        """Nothing to bind."""

    def loads(self, request: Request) -> bool:
        """Never."""
        return False

    async def load(self, request: Request, cached: int) -> Loaded | None:
        """Nothing to load."""
        return None

    async def save(self, sequence: Sequence) -> None:
        """Nobody to send it to."""

    def answer(self, sequence: Sequence) -> dict[str, Any] | None:
        """Nothing to say."""
        return None

    def held_tokens(self) -> int:
        """None."""
        return 0

    async def close(self) -> None:
        """Nothing to let go of."""
