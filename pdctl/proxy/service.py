"""Config -> a proxy that listens, and its orderly end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket

import zmq
from aiohttp import web

from . import http
from .config import Address, Config
from .gateway import Gateway
from .health import Poller
from .legs import new_session
from .notify import Listener

log = logging.getLogger("pdctl.proxy")

# systemd's stop timeout is 90 s by default, but a rollout waits for every proxy: be gone within 10 s.
FINISH_S = 6.0
DRAIN_S = 1.0  # for the KV of requests that were cut


class BindError(Exception):
    """An address that cannot be listened on, in one line."""


async def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT: exit code 0. End with 1 if a part fails that nothing works without."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    service = Service(config)
    ends: set[asyncio.Task[object]] = set()
    try:
        await service.start()
        ends = {asyncio.create_task(stopped.wait()), asyncio.create_task(service.broken())}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return 0 if stopped.is_set() else 1
    finally:
        for task in ends:
            task.cancel()
        await service.stop()


class Service:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._session = new_session(config.limits)
        self.gateway = Gateway(config, self._session)
        self._poller = Poller(config, self.gateway.fleet, self._session)
        self._listener: Listener | None = None
        self._runners: list[web.AppRunner] = []
        self._sites: list[web.TCPSite] = []
        self.bound: dict[str, Address] = {}  # what was really bound, where the config says port 0

    async def start(self) -> None:
        """The PULL socket first: a notice must never find nobody there."""
        if self._config.lmcache and self._config.notification:
            self._listener = listening(self.gateway, self._config.notification)
            self._listener.start()
            self.bound["notification"] = self._listener.address
        await self._listen("listen", http.front(self.gateway), self._config.listen)
        if self._config.metrics:
            await self._listen("metrics", http.metrics_only(self.gateway), self._config.metrics)
        self._poller.start()
        addresses = " ".join(f"{key}={address}" for key, address in self.bound.items())
        log.info("cluster=%s model=%s up %s", self._config.cluster, self._config.model, addresses)

    async def broken(self) -> None:
        """Returns when a watcher or the notice listener has ended; they have no reason to."""
        tasks = [
            *self._poller.tasks,
            *([self._listener.task] if self._listener and self._listener.task else []),
        ]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            log.critical(
                "%s has ended", task.get_name(), exc_info=None if task.cancelled() else task.exception()
            )

    async def stop(self) -> None:
        """Take no more, finish what is in flight, cut what does not finish."""
        self.gateway.closing = True
        for site in self._sites:
            await site.stop()
        if not await self.gateway.idle(FINISH_S):
            log.warning("stopping with %d requests unfinished", self.gateway.in_flight)
        for runner in self._runners:
            await runner.cleanup()
        await self.gateway.idle(DRAIN_S)
        await self.gateway.abandon()
        await self._poller.close()
        if self._listener:
            await self._listener.close()
        await self._session.close()

    async def _listen(self, key: str, app: web.Application, address: Address) -> None:
        # handler_cancellation: a client that goes away cancels its handler, which closes the legs.
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.25)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, address.host, address.port, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            raise BindError(f"cannot listen on {address} ({key}): {reason(error)}") from error
        self._sites.append(site)
        self.bound[key] = Address(address.host, runner.addresses[0][1])


def listening(gateway: Gateway, address: Address) -> Listener:
    try:
        return Listener(gateway.board, address)
    except zmq.ZMQError as error:
        raise BindError(
            f"cannot listen on {address} (notification): {zmq.strerror(error.errno or 0)}"
        ) from error


def reason(error: OSError) -> str:
    """asyncio puts the address into the text; a name that does not resolve has no system error number."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)
