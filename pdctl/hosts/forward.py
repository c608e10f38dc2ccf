"""A loopback port whose connections come out at a host's end of an ssh session."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Protocol

from pdctl.errors import PdctlError

GONE = (OSError, EOFError)  # what sockets and channels raise when their other end is gone


class Channel(Protocol):
    """What a relay needs of an ssh channel."""

    def recv(self, nbytes: int, /) -> bytes: ...

    def sendall(self, data: bytes, /) -> None: ...

    def shutdown_write(self) -> None: ...

    def close(self) -> None: ...


class Forwarder:
    """Accepts on 127.0.0.1 and relays each connection through a channel of its own, until closed."""

    def __init__(self, open_channel: Callable[[], Channel | None]) -> None:
        self._open_channel = open_channel
        self._closing = False
        self._ends: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._accept, name="forward", daemon=True).start()

    def close(self) -> None:
        self._closing = True
        # close() alone would not wake the thread that waits in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in list(self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closing:
            try:
                end, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(end,), name="forward", daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        """One connection; where the host refuses it, it is closed, as it would be without a forward."""
        # A streamed token is a small packet: without this it would wait for the ACK of the one before.
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ends.add(end)
        with end, contextlib.suppress(PdctlError, *GONE):
            channel = self._open_channel()
            if channel is not None:
                upward = threading.Thread(target=_up, args=(end, channel), name="forward", daemon=True)
                upward.start()
                _down(channel, end)
                upward.join()
                channel.close()
        self._ends.discard(end)


def _up(end: socket.socket, channel: Channel) -> None:
    with contextlib.suppress(*GONE):  # either side may go away; the other direction ends by itself
        while data := end.recv(1 << 16):
            channel.sendall(data)
        channel.shutdown_write()


def _down(channel: Channel, end: socket.socket) -> None:
    with contextlib.suppress(*GONE):
        while data := channel.recv(1 << 16):
            end.sendall(data)
    # The host has said all; a client that keeps the connection open is told so, and `_up` ends with it.
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
