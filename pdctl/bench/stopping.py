"""Work that ends early on Ctrl-C or at a time limit, and says which."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

INTERRUPTED = "interrupted"


async def race(
    work: Coroutine[Any, Any, T], stop: asyncio.Event, limit_s: float | None = None
) -> tuple[T | None, str]:
    """The result of `work`, or why it was cancelled; it is over, one way or the other, when this returns."""
    if stop.is_set():
        work.close()
        return None, INTERRUPTED
    task, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        ended, _ = await asyncio.wait({task, stopped}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        task.cancel()  # does nothing to a task that is done
        await asyncio.wait({task})
    if task in ended:
        return task.result(), ""
    return None, INTERRUPTED if stopped in ended else f"the time limit of {limit_s:g} s was reached"


async def interruptible(run: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """Turn the first SIGINT into the event; a second one meets the handler that was there before."""
    stop, loop, before = asyncio.Event(), asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)

    def restore() -> None:
        if loop.remove_signal_handler(signal.SIGINT):
            signal.signal(signal.SIGINT, before)

    def first() -> None:
        restore()
        stop.set()

    # only the main thread may handle signals; and a shell's background job is started with SIGINT ignored
    main = threading.current_thread() is threading.main_thread()
    held = main and before not in (signal.SIG_IGN, None)
    if held:
        loop.add_signal_handler(signal.SIGINT, first)
    try:
        return await run(stop)
    finally:
        if held:
            restore()
