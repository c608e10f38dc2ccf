"""paramiko's transport without its lost answers, and without its naps; used by ssh.py alone."""

from __future__ import annotations

import threading
import time
from typing import Any

from paramiko.auth_handler import AuthOnlyHandler
from paramiko.common import cMSG_SERVICE_REQUEST
from paramiko.message import Message
from paramiko.ssh_exception import SSHException
from paramiko.transport import ServiceRequestingTransport

LOOK_UP_S = 0.1  # how often it is looked whether the connection lives on


class Transport(ServiceRequestingTransport):
    """A connection whose logins cannot miss a fast answer, and end when there is none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._may_log_in = threading.Event()
        super().__init__(*args, **kwargs)

    def get_auth_handler(self) -> AuthOnlyHandler:
        return _Handler(self)

    @property
    def _service_userauth_accepted(self) -> bool:
        return self._may_log_in.is_set()

    @_service_userauth_accepted.setter
    def _service_userauth_accepted(self, value: bool) -> None:
        """Set by the thread that reads the server's answers."""
        if value:
            self._may_log_in.set()

    def ensure_session(self) -> None:
        """As paramiko 4.0 does it, which sleeps for 0.1 s at a time, and for ever when no answer comes."""
        if not self.is_active() or not self.initial_kex_done:
            raise SSHException("No existing session")
        if self._may_log_in.is_set():
            return
        request = Message()
        request.add_byte(cMSG_SERVICE_REQUEST)
        request.add_string("ssh-userauth")
        self._send_message(request)  # type: ignore[attr-defined]  # left out of the type stubs
        deadline = time.monotonic() + self.auth_timeout
        while not self._may_log_in.wait(LOOK_UP_S):
            if not self.is_active():
                raise self.get_exception() or SSHException("the server ended it before the login")
            if time.monotonic() > deadline:
                raise SSHException(f"no answer to the login within {self.auth_timeout:g} s")
        self.auth_handler = self.get_auth_handler()


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
