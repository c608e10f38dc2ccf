"""paramiko's transport without its lost answers; used by ssh.py alone."""

from __future__ import annotations

import threading
from typing import Any

from paramiko.auth_handler import AuthOnlyHandler
from paramiko.transport import ServiceRequestingTransport


class Transport(ServiceRequestingTransport):
    """A connection whose logins cannot miss a fast answer."""

    def get_auth_handler(self) -> AuthOnlyHandler:
        return _Handler(self)


class _Handler(AuthOnlyHandler):
    """paramiko 4.0 makes the event it waits for after it sent the request: an answer in between is lost, and
    a good key then counts as refused. Here the event is there before, and is not replaced."""

    _ready: threading.Event | None = None

    def send_auth_request(self, *args: Any, **kwargs: Any) -> Any:
        self._ready = threading.Event()
        return super().send_auth_request(*args, **kwargs)

    @property
    def auth_event(self) -> threading.Event | None:
        return self._ready

    @auth_event.setter
    def auth_event(self, value: threading.Event | None) -> None:
        """paramiko's own event comes too late to be used."""
