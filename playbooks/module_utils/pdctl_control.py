"""Requests to a running proxy over its control socket -> its answers, in its format (docs/proxy.md)."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from ansible.module_utils.pdctl_rows import Row

FORMAT = "pdctl-control/1"
START_S = 3.0  # from its process to its socket; 0.5 s on an idle machine
ANSWER_S = 5.0  # everything it is asked is answered from memory, or after reading one small file
# Nobody there: never started, ended, or killed and its socket left behind.
GONE = (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, BrokenPipeError, NotADirectoryError)


class ControlError(Exception):
    """Why the proxy did not do what it was asked. `status` is HTTP's, 0 when nothing was understood."""

    def __init__(self, message: str, status: int = 0, body: Row | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = body or {}


class AbsentError(ControlError):
    """No proxy listens there."""


class SilentError(ControlError):
    """It listens and does not answer: busy for the moment, or hanging."""


class ForeignError(ControlError):
    """It speaks another format: of another pdctl, or no proxy at all."""


def proxy_state(path: str, patience_s: float = 0.0) -> Row:
    """Its state; a proxy that has just been started may take a moment to listen."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return ask_proxy(path, "GET", "/state")
        except AbsentError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(0.1)


def ask_proxy(path: str, method: str, page: str, body: Row | None = None) -> Row:
    """The state that the proxy answers with."""
    status, answer = _exchange(path, method, page, b"" if body is None else json.dumps(body).encode())
    if status != 200:
        raise ControlError(str(answer.get("error") or f"answered with status {status}"), status, answer)
    if answer.get("format") != FORMAT:
        raise ForeignError(f"speaks {answer.get('format')!r}, not {FORMAT}")
    return answer


def _exchange(path: str, method: str, page: str, body: bytes) -> tuple[int, Row]:
    head = (
        f"{method} {page} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(ANSWER_S)
        try:
            sock.connect(path)
            sock.sendall(head.encode() + body)
            answer = _all(sock)
        except GONE as error:
            raise AbsentError(f"no proxy listens on {path}: {error.strerror}") from None
        except (socket.timeout, BlockingIOError):  # the latter: connect(2) where too many wait already
            raise SilentError(f"the proxy was silent for {ANSWER_S:g} s on {path}") from None
    return _parsed(answer, path)


def _all(sock: socket.socket) -> bytes:
    """HTTP/1.0: the answer ends with the connection."""
    found = bytearray()
    while True:
        part = sock.recv(65536)
        if not part:
            return bytes(found)
        found += part


def _parsed(answer: bytes, path: str) -> tuple[int, Row]:
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n")[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise AbsentError(f"what listened on {path} ended without an answer")
    try:
        found: Any = json.loads(body)
    except ValueError:
        found = None
    return int(words[1]), found if isinstance(found, dict) else {}
