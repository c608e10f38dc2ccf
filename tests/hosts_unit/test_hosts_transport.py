"""A login whose answer is faster than paramiko's own thread."""

from __future__ import annotations

import threading
import time
from typing import Any

import paramiko.auth_handler
import paramiko.transport
import pytest

from pdctl.errors import UnreachableError
from pdctl.hosts.session import open_session
from pdctl.hosts.transport import Transport
from tests.hosts_unit.sshd import SSHD, Sshd

pytestmark = pytest.mark.skipif(SSHD is None, reason="sshd is not installed (apt-get install openssh-server)")


class SlowThreading:
    """paramiko's view of `threading`: its thread is slow to make an event."""

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)

    def Event(self) -> threading.Event:  # noqa: N802
        time.sleep(0.3)  # long enough for any answer on loopback
        return threading.Event()


class Sleepless:
    """paramiko's view of `time`: sleeping is an error."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"slept for {seconds} s")


def test_an_answer_that_comes_before_paramiko_waits_for_it_is_not_lost(
    server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paramiko.auth_handler, "threading", SlowThreading())
    with open_session(server.reach(become=False)) as session:
        assert session.run(b"print(1)").out == b"1\n"


def test_a_login_does_not_sleep_while_it_waits_for_the_server(
    server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paramiko.transport, "time", Sleepless())
    with open_session(server.reach(become=False)) as session:
        assert session.run(b"print(1)").out == b"1\n"


def test_a_server_that_never_lets_the_login_begin_is_given_up(
    server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Transport, "_parse_service_accept", lambda self, message: None)
    short = property(lambda self: 0.2, lambda self, value: None)
    monkeypatch.setattr(Transport, "auth_timeout", short, raising=False)
    with pytest.raises(UnreachableError, match=r"no answer to the login within 0.2 s"):
        open_session(server.reach(become=False))
