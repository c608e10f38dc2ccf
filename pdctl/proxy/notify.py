"""KV-ready notices of the prefillers' ranks -> the moment when a request's KV is complete on its decoder."""

from __future__ import annotations

import asyncio

import msgpack
import zmq
import zmq.asyncio

from .config import Address
from .metrics import Metrics
from .tasks import end

# A notice is some 70 bytes; whoever sends more than this is no prefiller, and libzmq drops the connection.
MAX_NOTICE_BYTES = 65536


class Arrival:
    """The notices counted for one request, up to the rank count of its decoder."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.count = 0
        self._complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if ranks == 0:
            self._complete.set_result(None)

    @property
    def complete(self) -> bool:
        return self._complete.done()

    def add(self) -> None:
        self.count += 1
        if self.count == self.ranks:
            self._complete.set_result(None)

    async def wait(self, seconds: float) -> bool:
        await asyncio.wait({self._complete}, timeout=seconds)
        return self.complete

    def missing(self) -> str:
        """Which ranks are missing; a notice carries no rank, so only none and all can be told apart."""
        ranks = ", ".join(map(str, range(self.ranks)))
        if self.count == 0:
            return f"missing ranks {ranks}"
        return f"missing {self.ranks - self.count} of ranks {ranks}"


class Board:
    """Who waits for which notices. Ids are unique over restarts: an unknown one is stale and is dropped."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._waiting: dict[str, Arrival] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def expect(self, request_id: str, ranks: int) -> Arrival:
        arrival = Arrival(ranks)
        if ranks:
            self._waiting[request_id] = arrival
        return arrival

    def forget(self, request_id: str) -> None:
        self._waiting.pop(request_id, None)

    def take(self, payload: bytes) -> None:
        """Count one message; never raises, since one bad sender must not stop the others."""
        request_id = decoded(payload)
        arrival = self._waiting.get(request_id) if request_id is not None else None
        if request_id is None:
            kind = "undecodable"
        elif arrival is None:
            kind = "unknown"
        elif arrival.complete:
            kind = "surplus"
        else:
            arrival.add()
            kind = "counted"
        self._metrics.count("pdctl_proxy_notifications_total", kind=kind)


def decoded(payload: bytes) -> str | None:
    """The request id of a `ProxyNotif`: a msgpack map with a `type` (LMCache 0.3.10, 0.5.6 pd_backend.py)."""
    try:
        message = msgpack.unpackb(payload)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        return None
    if not isinstance(message, dict) or message.get("type") != "ProxyNotif":
        return None
    request_id = message.get("req_id")
    return request_id if isinstance(request_id, str) else None


class Listener:
    """The bound PULL socket every prefiller rank pushes to."""

    def __init__(self, board: Board, address: Address) -> None:
        self._board = board
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.PULL)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_NOTICE_BYTES)
        self._socket.setsockopt(zmq.IPV6, int(":" in address.host))
        self.task: asyncio.Task[None] | None = None
        try:
            self._socket.bind(f"tcp://{address}")
        except zmq.ZMQError:
            self._context.destroy(linger=0)
            raise
        endpoint = self._socket.get_string(zmq.LAST_ENDPOINT)
        self.address = Address(address.host, int(endpoint.rsplit(":", 1)[1].rstrip("\0")))

    def start(self) -> None:
        self.task = asyncio.create_task(self._listen(), name="notice listener")

    async def _listen(self) -> None:
        while True:
            for frame in await self._socket.recv_multipart():
                self._board.take(frame)

    async def close(self) -> None:
        if self.task is not None:
            await end([self.task])
        self._context.destroy(linger=0)
