"""The parts every request uses, held together; and the tasks that outlive the request that started them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from typing import Any

import aiohttp

from . import __version__
from .admission import Admission
from .config import Config, Loaded
from .fleet import Fleet
from .legs import Legs
from .metrics import Metrics, Sample
from .notify import Board
from .tasks import end

log = logging.getLogger("pdctl.proxy")


class Gateway:
    def __init__(self, loaded: Loaded, session: aiohttp.ClientSession) -> None:
        self.loaded = loaded
        config = loaded.config
        self.metrics = Metrics()
        self.fleet = Fleet(config, self.metrics)
        self.board = Board(self.metrics)
        self.admission = Admission(self.fleet, config.limits)
        self.legs = Legs(session, self.fleet, config.limits, self.metrics)
        self.in_flight = 0
        self.closing = False  # no new requests
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def config(self) -> Config:
        return self.loaded.config

    def adopt(self, loaded: Loaded) -> None:
        """Another configuration from the next request on; what is in flight is not touched."""
        self.loaded = loaded
        self.admission.limits = self.legs.limits = loaded.config.limits
        self.fleet.adopt(loaded.config)

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("background task failed", exc_info=error)

    @property
    def background(self) -> int:
        return len(self._tasks)

    async def idle(self, seconds: float) -> bool:
        """Wait until nothing is in flight; False when that took too long."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (self.in_flight or self._tasks) and loop.time() < deadline:
            await asyncio.sleep(0.05)
        return not (self.in_flight or self._tasks)

    async def abandon(self) -> None:
        await end(self._tasks)

    def metrics_text(self) -> str:
        return self.metrics.render(self._gauges())

    def _gauges(self) -> Iterator[Sample]:
        config = self.config
        labels = {"cluster": config.cluster, "mode": config.mode, "connector": config.connector or "none"}
        yield ("pdctl_proxy_info", (("version", __version__), *labels.items()), 1)
        yield ("pdctl_proxy_requests_in_flight", (), self.in_flight)
        yield ("pdctl_proxy_background_tasks", (), len(self._tasks))
        yield ("pdctl_proxy_notifications_expected", (), len(self.board))
        yield from self.fleet.gauges()
        yield from self.admission.gauges()
