"""A ProxyCommand as a connected socket, with its process reaped when the connection ends."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import threading

from pdctl.errors import UnreachableError
from pdctl.hosts.tcp import tune

END_S = 2.0  # how long the process may take to end


class ProxyProcess:
    """What paramiko needs of a socket, on socket pairs, so that ends and timeouts behave as they should.

    (paramiko's own ProxyCommand spins for ever when the command ends.) With `fdpass` the command hands over
    a connected socket and leaves (ssh_config(5), ProxyUseFdpass).
    """

    def __init__(self, command: str, *, fdpass: bool, timeout_s: float, where: str) -> None:
        self._command = command
        self._where = where
        self._said = bytearray()
        near_in, far_in = socket.socketpair()
        near_out, far_out = (near_in, far_in) if fdpass else socket.socketpair()
        with far_in, far_out:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=far_in.fileno(),
                stdout=far_out.fileno(),
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C at the terminal is ours to handle
            )
        self._listener = threading.Thread(target=self._listen, name="proxy-stderr", daemon=True)
        self._listener.start()
        self._write, self._read = near_in, near_out
        if fdpass:
            self._write = self._read = self._received(near_in, timeout_s)

    def send(self, data: bytes) -> int:
        return self._write.send(data)

    def recv(self, size: int) -> bytes:
        return self._read.recv(size)

    def settimeout(self, seconds: float | None) -> None:
        self._write.settimeout(seconds)
        self._read.settimeout(seconds)

    @property
    def _closed(self) -> bool:  # paramiko asks sockets by this name
        return self._read.fileno() == -1

    def failure(self, what: str) -> UnreachableError:
        """Ends the process and says what went wrong, in its own words where it has some."""
        self.close()
        said = self._said.decode(errors="replace").strip()
        return UnreachableError(said or f"ProxyCommand `{self._command}` {what}", where=self._where)

    def close(self) -> None:
        """Ends the connection, then the process, by SIGHUP as ssh does it."""
        self._write.close()
        self._read.close()
        self._process.send_signal(signal.SIGHUP)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(END_S)  # a grandchild may hold stderr open

    def _received(self, channel: socket.socket, timeout_s: float) -> socket.socket:
        channel.settimeout(timeout_s)
        descriptors: list[int] = []
        with channel, contextlib.suppress(TimeoutError, ConnectionError):
            descriptors = socket.recv_fds(channel, 1, 1)[1]
        if not descriptors:
            raise self.failure("does not hand over a connection")
        connection = socket.socket(fileno=descriptors[0])
        tune(connection)
        return connection

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            while data := stderr.read1(1 << 12):  # type: ignore[attr-defined]  # a BufferedReader
                self._said.extend(data)
