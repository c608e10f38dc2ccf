"""A login whose answer is faster than paramiko's own thread."""

from __future__ import annotations

import threading
import time
from typing import Any

import paramiko.auth_handler
import pytest

from pdctl.hosts.session import open_session
from tests.hosts_unit.sshd import SSHD, Sshd

pytestmark = pytest.mark.skipif(SSHD is None, reason="sshd is not installed (apt-get install openssh-server)")


class SlowThreading:
    """paramiko's view of `threading`: its thread is slow to make an event."""

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)

    def Event(self) -> threading.Event:  # noqa: N802
        time.sleep(0.3)  # long enough for any answer on loopback
        return threading.Event()


def test_an_answer_that_comes_before_paramiko_waits_for_it_is_not_lost(
    server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paramiko.auth_handler, "threading", SlowThreading())
    with open_session(server.reach(become=False)) as session:
        assert session.run(b"print(1)").out == b"1\n"
