"""Signals while hosts are locked: none tears a lock's taking or giving back, all may end what is between."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

POLITE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def deferred() -> Iterator[None]:
    """A signal that comes inside is a KeyboardInterrupt after it: what is begun here ends in seconds."""
    came: list[int] = []
    with _heard(lambda number, _: came.append(number)):
        yield
    if came:
        raise KeyboardInterrupt


@contextmanager
def raising() -> Iterator[None]:
    """Every polite signal is a KeyboardInterrupt, so that what is held is given back."""

    def interrupt(number: int, _: Any) -> None:
        raise KeyboardInterrupt

    with _heard(interrupt):
        yield


@contextmanager
def _heard(handler: Any) -> Iterator[None]:
    """Only the main thread hears signals; those that are ignored (nohup) stay so."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        heard = [number for number in POLITE if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
