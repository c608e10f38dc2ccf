"""One piece of work per host, all hosts at once: results in the order in which they come."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from pdctl.errors import PdctlError

AT_ONCE = 64  # connections; each costs the controller a key exchange (about 10 ms of CPU) and three threads
# A Ctrl-C that goes to another thread, or comes just before the wait, does not end a wait without a limit.
LOOK_UP_S = 0.2

Input = TypeVar("Input")
Output = TypeVar("Output")


def on_each(
    hosts: Mapping[str, Input], work: Callable[[Input], Output], *, at_once: int = AT_ONCE
) -> Iterator[tuple[str, Output | PdctlError]]:
    """Results and expected errors by host; any other exception of `work` is raised here.

    The threads are daemons: a Ctrl-C while waiting for them ends pdctl without waiting for slow hosts.
    """
    waiting: queue.SimpleQueue[tuple[str, Input]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[str, Output | BaseException]] = queue.SimpleQueue()
    for item in hosts.items():
        waiting.put(item)
    for number in range(min(at_once, len(hosts))):
        threading.Thread(target=_work, args=(waiting, work, done), name=f"host-{number}", daemon=True).start()
    for _ in hosts:
        host, outcome = _next(done)
        if isinstance(outcome, BaseException) and not isinstance(outcome, PdctlError):
            raise outcome
        yield host, outcome


def _next(done: queue.SimpleQueue[Output]) -> Output:
    while True:
        with contextlib.suppress(queue.Empty):
            return done.get(timeout=LOOK_UP_S)


def _work(
    waiting: queue.SimpleQueue[tuple[str, Input]],
    work: Callable[[Input], Output],
    done: queue.SimpleQueue[tuple[str, Output | BaseException]],
) -> None:
    while True:
        try:
            host, given = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            done.put((host, work(given)))
        except BaseException as error:  # noqa: BLE001  raised again where the results are read
            done.put((host, error))
