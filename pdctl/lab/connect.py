"""Opens a socket inside a lab's network for a program outside it: ssh's ProxyCommand, and `Lab.connect`.

Run as a script it needs the standard library alone, since every ssh connection waits for its start.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CLONE_NEWNET = 0x40000000  # linux/sched.h
# ssh's own ConnectTimeout does not reach a ProxyCommand (OpenSSH 9.2), so an unplugged host needs one here.
TIMEOUT = 5.0


def main(arguments: list[str]) -> int:
    """`connect.py NETNS ADDRESS PORT`: hand the socket to ssh, or relay it over stdin and stdout."""
    netns, address, port = arguments
    if os.geteuid() != 0:
        return _failed("joining a lab's network needs root: run this command with sudo")
    try:
        with joined(netns):
            connection = socket.create_connection((address, int(port)), TIMEOUT)
    except FileNotFoundError:
        return _failed(f"the lab of {netns} is not up: run `pdctl lab up`")
    except OSError as error:
        return _failed(f"connect to {address} port {port}: {error}")
    with connection:
        connection.setblocking(True)
        if _takes_descriptors():
            with socket.socket(fileno=os.dup(1)) as channel:
                socket.send_fds(channel, [b"\0"], [connection.fileno()])
        else:
            _relay(connection)
    return 0


@contextmanager
def joined(netns: str) -> Iterator[None]:
    """Put this thread into the network namespace at the path `netns`; sockets made there stay there."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(home)


def _setns(descriptor: int) -> None:
    if sys.version_info >= (3, 12):
        os.setns(descriptor, CLONE_NEWNET)
        return
    import ctypes  # only where os.setns is missing: it costs each connection milliseconds

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _takes_descriptors() -> bool:
    """OpenSSH with ProxyUseFdpass gives one socket as both stdin and stdout; paramiko gives two pipes."""
    first, second = os.fstat(0), os.fstat(1)
    return stat.S_ISSOCK(second.st_mode) and (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _relay(connection: socket.socket) -> None:
    """Copy both ways, each in its own thread so that one full pipe cannot stop the other direction."""
    threading.Thread(target=_upstream, args=(connection,), daemon=True).start()
    try:
        while data := connection.recv(1 << 16):
            _write_all(data)
    except (ConnectionError, BrokenPipeError):
        return


def _upstream(connection: socket.socket) -> None:
    try:
        while data := os.read(0, 1 << 16):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:  # the other direction has closed the socket; it ends the process
        return


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _failed(reason: str) -> int:
    print(f"pdctl lab: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
