"""Connections to jump hosts, each opened once and shared by all the hosts behind it.

sshd drops connections that come in a burst (sshd_config(5): MaxStartups 10:30:100), and a jump host would
get one from every host of a cluster at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from pdctl.errors import PdctlError


class Closable(Protocol):
    """A connection that can be ended."""

    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class Gateways:
    """Holds the connections; the first that asks opens, the others get what it got, an error included."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: dict[Hashable, Future[Any]] = {}

    def get(self, key: Hashable, open_it: Callable[[], T]) -> T:
        with self._lock:
            known = self._opened.get(key)
            future = known or self._opened.setdefault(key, Future())
        if known is None:
            try:
                future.set_result(open_it())
            except PdctlError as error:
                future.set_exception(error)
            except BaseException as error:
                future.set_exception(error)
                raise
        connection: T = future.result()
        return connection

    def close(self) -> None:
        with self._lock:
            futures = list(self._opened.values())
            self._opened.clear()
        for future in futures:
            if future.done() and future.exception() is None:
                future.result().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
