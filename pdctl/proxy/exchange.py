"""One client request and the answer going back to it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

# In ids next to a random UUID, so that an id of before the proxy's restart can be told from any of after it.
BOOT_NONCE = uuid.uuid4().hex[:8]


def new_id() -> str:
    return f"{BOOT_NONCE}-{uuid.uuid4().hex}"


@dataclass(eq=False)
class Exchange:
    request: web.Request
    path: str  # /v1/completions or /v1/chat/completions, the same on every leg
    body: dict[str, Any]
    id: str = field(default_factory=new_id)
    served_by: dict[str, str] = field(default_factory=dict)  # role -> instance
    tokens: int | None = None
    broken: bool = False  # the stream ended in an error event
    outcome: str = "disconnected"  # until an answer says otherwise
    reason: str = ""  # why it failed, for the log
    _response: web.StreamResponse | None = None

    @property
    def chat(self) -> bool:
        return "chat" in self.path

    @property
    def streams(self) -> bool:
        return self.body.get("stream") is True

    @property
    def stream_options(self) -> dict[str, Any]:
        options = self.body.get("stream_options")
        return options if isinstance(options, dict) else {}

    @property
    def started(self) -> bool:
        """True once the client has seen a status: from then on no other answer can be given."""
        return self._response is not None

    @property
    def response(self) -> web.StreamResponse:
        """What has been begun; for a client that left before, nginx's 499, which nobody will see."""
        return self._response or web.Response(status=499)

    def headers(self) -> dict[str, str]:
        """What every answer says about who made it."""
        names = {f"x-pdctl-{role}": name for role, name in self.served_by.items()}
        return {"x-request-id": self.id, **names}

    def leg_headers(self, request_id: str | None = None) -> dict[str, str]:
        """The same X-Request-Id on both legs: NixlConnector and the engines' logs go by it."""
        headers = {"X-Request-Id": request_id or self.id}
        if authorization := self.request.headers.get("Authorization"):
            headers["Authorization"] = authorization
        return headers

    async def begin(self) -> None:
        self._response = web.StreamResponse(
            headers={
                **self.headers(),
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",
            }
        )
        await self._response.prepare(self.request)

    async def send(self, data: bytes) -> None:
        assert self._response is not None
        if data:
            await self._response.write(data)

    async def end(self) -> web.StreamResponse:
        assert self._response is not None
        await self._response.write_eof()
        return self._response

    def whole(self, body: bytes, content_type: str = "application/json") -> web.Response:
        return web.Response(body=body, headers={**self.headers(), "Content-Type": content_type})
