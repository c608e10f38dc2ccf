"""A TCP connection set up for ssh: small packets at once, and a dead peer noticed."""

from __future__ import annotations

import socket

# A peer that acknowledges nothing for this long is gone; ssh's keepalives give it something to acknowledge.
SILENCE_MS = 10_000


def tune(connection: socket.socket) -> None:
    """tcp(7). Without TCP_NODELAY each small packet of a login waits for a delayed ACK, 40 ms on Linux."""
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MS)
