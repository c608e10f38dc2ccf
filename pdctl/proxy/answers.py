"""What can go wrong on a leg -> the answer the client gets for it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from aiohttp import web

# Anything else below 400 is `ok`, in 4xx `client_error`.
OUTCOMES = {
    413: "rejected",
    429: "rejected",
    502: "upstream_error",
    503: "unavailable",
    504: "timeout",
}


@dataclass(frozen=True)
class Answer:
    """A complete answer that is not the model's."""

    status: int
    body: bytes
    content_type: str = "application/json"
    retry_after: str | None = None

    @property
    def outcome(self) -> str:
        return OUTCOMES.get(self.status, "client_error" if self.status < 500 else "upstream_error")

    def response(self, headers: dict[str, str]) -> web.Response:
        sent = {**headers, "Content-Type": self.content_type}
        if self.retry_after is not None:
            sent["Retry-After"] = self.retry_after
        return web.Response(status=self.status, body=self.body, headers=sent)


class RefusedError(Exception):
    """The request ends here, with this answer, and no other instance would change that."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"status {answer.status}")
        self.answer = answer


class LegError(Exception):
    """One leg failed on one instance; another instance may do better when `retryable`."""

    def __init__(
        self, name: str, role: str, reason: str, *, status: int = 502, retryable: bool = False
    ) -> None:
        super().__init__(f"{role} {name} {reason}")
        self.name = name
        self.role = role
        self.status = status
        self.retryable = retryable
        self.reached = True  # False when not even a connection was made: nothing can have happened there

    @property
    def answer(self) -> Answer:
        kind = "timeout_error" if self.status == 504 else "upstream_error"
        return error(self.status, str(self), kind)


def error(
    status: int, message: str, kind: str, param: str | None = None, retry_after: int | None = None
) -> Answer:
    return Answer(
        status,
        json.dumps(error_object(status, message, kind, param)).encode(),
        retry_after=None if retry_after is None else str(retry_after),
    )


def error_object(status: int, message: str, kind: str, param: str | None = None) -> dict[str, object]:
    """The OpenAI API's error shape, which vLLM uses too."""
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def bad_request(message: str, param: str | None = None) -> RefusedError:
    return RefusedError(error(400, message, "invalid_request_error", param))


def too_large(message: str) -> RefusedError:
    return RefusedError(error(413, message, "invalid_request_error"))


def busy(message: str) -> RefusedError:
    # 1 s: slots come free with every finished transfer, so there is no better estimate to give.
    return RefusedError(error(429, message, "overloaded_error", retry_after=1))


def unavailable(message: str) -> RefusedError:
    return RefusedError(error(503, message, "service_unavailable_error", retry_after=5))
