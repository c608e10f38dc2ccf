"""msgpack maps over ZeroMQ: a listener that answers each message, a question that waits for its answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgpack
import zmq
import zmq.asyncio

from .errors import KVError, StartError

log = logging.getLogger("wire")

Message = dict[str, Any]
Handler = Callable[[Message], Awaitable[Message]]


class Listener:
    """A bound ROUTER socket, which REQ and DEALER sockets may ask."""

    def __init__(self, context: zmq.asyncio.Context, host: str, port: int, handler: Handler) -> None:
        self._handler = handler
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket = context.socket(zmq.ROUTER)
        self._socket.linger = 0
        try:
            self._socket.bind(f"tcp://{host}:{port}")
        except zmq.ZMQError as error:
            raise StartError(f"cannot bind {host}:{port}: {error}") from error
        self._spawn(self._serve())

    async def close(self) -> None:
        """Stop listening."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._socket.close()

    async def _serve(self) -> None:
        while True:
            *route, payload = await self._socket.recv_multipart()
            try:
                message = unpack(payload)
            except ValueError as error:
                log.error("undecodable message: %s", error)
                continue
            self._spawn(self._answer(route, message))

    async def _answer(self, route: list[bytes], message: Message) -> None:
        try:
            answer = await self._handler(message)
        except (KeyError, TypeError, ValueError) as error:
            log.error("cannot answer %s: %r", message.get("type"), error)
            return
        await self._socket.send_multipart([*route, pack(answer)])

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def ask(
    context: zmq.asyncio.Context, host: str, port: int, question: Message, seconds: float | None = None
) -> Message:
    """The answer to `question`; without `seconds` as long as it takes, as LMCache's sender does."""
    socket = context.socket(zmq.REQ)
    socket.linger = 0
    try:
        socket.connect(f"tcp://{host}:{port}")
        await socket.send(pack(question))
        if not await socket.poll(None if seconds is None else int(seconds * 1000)):
            raise KVError(f"no answer from {host}:{port} within {seconds} s")
        return unpack(await socket.recv())
    except (zmq.ZMQError, ValueError) as error:
        raise KVError(f"{host}:{port}: {error}") from error
    finally:
        socket.close()


def pack(message: Message) -> bytes:
    """The bytes of `message`."""
    return bytes(msgpack.packb(message))


def unpack(payload: bytes) -> Message:
    """The map in `payload`; ValueError when it holds none."""
    try:
        message = msgpack.unpackb(payload)
    except (msgpack.UnpackException, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(message, dict):
        raise ValueError(f"not a map: {message!r}")
    return message
