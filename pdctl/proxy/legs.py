"""One request to one instance, bounded in time; what goes wrong becomes RefusedError or LegError."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import aiohttp

from . import sse
from .answers import Answer, LegError, RefusedError
from .config import Limits
from .fleet import Fleet
from .member import Member
from .metrics import Metrics

T = TypeVar("T")

# vLLM's API server closes a connection that is idle for 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE); one that it may
# just have closed must not be used for the next request.
KEEPALIVE_S = 2.0


def new_session(limits: Limits) -> aiohttp.ClientSession:
    """No ceiling on connections: who is admitted is decided by slots, not by a pool nobody sees."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=KEEPALIVE_S),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_s),
        headers={"Accept-Encoding": "identity"},
    )


class Legs:
    def __init__(
        self, session: aiohttp.ClientSession, fleet: Fleet, limits: Limits, metrics: Metrics
    ) -> None:
        self._session = session
        self._fleet = fleet
        self.limits = limits
        self._metrics = metrics

    async def ask(
        self, member: Member, path: str, body: Mapping[str, Any], headers: Mapping[str, str], seconds: float
    ) -> dict[str, Any]:
        """A JSON object for a JSON object; `seconds` covers all of it."""
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=self.limits.connect_s)
        async with self._open(member, path, body, headers, timeout) as leg:
            answer = sse.parsed(await leg.read())
            if not answer or sse.has_error(answer):
                raise leg.failed(
                    "answered 200 with an error inside" if answer else "sent an answer that is no JSON"
                )
            return answer

    async def prefill(
        self, member: Member, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        with self._metrics.timed("pdctl_proxy_prefill_seconds"):
            answer = await self.ask(member, path, body, headers, self.limits.prefill_s)
        if sse.ends_with(answer, "abort"):  # LMCache 0.5.6 aborts a request whose KV it could not send
            self._fleet.failed(member)
            raise LegError(member.name, member.role, "aborted the prefill", retryable=True)
        return answer

    @asynccontextmanager
    async def decode(
        self, member: Member, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncIterator[Leg]:
        """The leg the answer comes from. Left early, its connection is closed and the engine aborts."""
        silence = self.limits.first_byte_s if body.get("stream") is True else self.limits.answer_s
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.limits.connect_s, sock_read=silence)
        began = asyncio.get_running_loop().time()
        async with self._open(member, path, body, headers, timeout) as leg:
            leg.began = began
            yield leg

    async def fetch(self, member: Member, path: str, headers: Mapping[str, str]) -> Answer:
        """A page of the instance, whatever its status."""
        timeout = aiohttp.ClientTimeout(total=self.limits.connect_s)
        with guarded(self._fleet, member, self.limits.connect_s):
            async with self._session.get(member.url + path, headers=headers, timeout=timeout) as response:
                content_type = response.headers.get("Content-Type", "application/json")
                return Answer(response.status, await response.read(), content_type)

    async def retrying(self, attempt: Callable[[Collection[str]], Awaitable[T]]) -> T:
        """Try once more without the instance that failed, if its role has another healthy one."""
        try:
            return await attempt(())
        except LegError as failure:
            if not failure.retryable or not self._fleet.available(failure.role, {failure.name}):
                raise
            self._metrics.count("pdctl_proxy_retries_total", role=failure.role)
            return await attempt({failure.name})

    @asynccontextmanager
    async def _open(
        self,
        member: Member,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncIterator[Leg]:
        limit = timeout.total or timeout.sock_read or 0
        with guarded(self._fleet, member, limit):
            response = await self._session.post(
                member.url + path, json=body, headers=headers, timeout=timeout, allow_redirects=False
            )
        leg = Leg(member, response, self._fleet, self._metrics, limit)
        try:
            if response.status != 200:
                await leg.reject()
            yield leg
        finally:
            response.close()  # returns a finished connection to the pool, cuts an unfinished one


class Leg:
    """An answer with status 200 that is being read."""

    def __init__(
        self, member: Member, response: aiohttp.ClientResponse, fleet: Fleet, metrics: Metrics, limit: float
    ) -> None:
        self.member = member
        self.content_type = response.headers.get("Content-Type", "application/json")
        self.began = 0.0
        self.touched = False
        self._response = response
        self._fleet = fleet
        self._metrics = metrics
        self._limit = limit
        self._splitter = sse.Splitter()

    @property
    def is_stream(self) -> bool:
        return self.content_type.startswith("text/event-stream")

    async def read(self) -> bytes:
        with guarded(self._fleet, self.member, self._limit, retryable=not self.touched):
            body = await self._response.read()
        self._first_byte()
        return body

    async def events(self) -> list[bytes]:
        """The next whole events, at least one; none at the end."""
        while True:
            with guarded(self._fleet, self.member, self._limit, retryable=not self.touched):
                chunk = await self._response.content.readany()
            events = self._splitter.feed(chunk)
            if events:
                self._first_byte()
            if events or not chunk:
                return events

    def succeeded(self) -> None:
        self._fleet.succeeded(self.member)

    def failed(self, reason: str, *, retryable: bool = False) -> LegError:
        self._fleet.failed(self.member)
        return LegError(self.member.name, self.member.role, reason, retryable=retryable)

    async def reject(self) -> None:
        """4xx is the engine's word to the client, kept as it is; anything else is the instance's failure."""
        status, body = self._response.status, await self.read()
        if not 400 <= status < 500:
            raise self.failed(f"answered with status {status}", retryable=True)
        self.succeeded()
        raise RefusedError(Answer(status, body, self.content_type, self._response.headers.get("Retry-After")))

    def _first_byte(self) -> None:
        if not self.touched and self.began:
            took = asyncio.get_running_loop().time() - self.began
            self._metrics.observe("pdctl_proxy_first_decode_byte_seconds", took)
        self.touched = True


@contextmanager
def guarded(fleet: Fleet, member: Member, limit: float, *, retryable: bool = True) -> Iterator[None]:
    """Transport errors of this instance -> LegError. Wraps reads from it only, never writes to a client."""
    try:
        yield
    except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as error:
        refused = isinstance(error, aiohttp.ClientConnectorError)
        fleet.failed(member, refused=refused)
        failure = LegError(member.name, member.role, "cannot be reached", retryable=True)
        failure.reached = False
        raise failure from error
    except asyncio.TimeoutError as error:
        fleet.failed(member)
        raise LegError(member.name, member.role, f"was silent for {limit:g} s", status=504) from error
    except aiohttp.ClientError as error:
        fleet.failed(member)
        raise LegError(member.name, member.role, "broke the connection", retryable=retryable) from error
