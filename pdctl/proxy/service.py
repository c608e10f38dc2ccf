"""Config -> a proxy that listens, and its orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from pathlib import Path

import zmq
from aiohttp import web

from . import http
from .config import Address, Loaded
from .control import Control
from .control_socket import Place, bound
from .gateway import Gateway
from .health import Poller
from .legs import new_session
from .notify import Listener
from .reload import ReloadError, read_again
from .tasks import end

log = logging.getLogger("pdctl.proxy")

# systemd's stop timeout is 90 s by default, but a rollout waits for every proxy: be gone within 10 s.
FINISH_S = 6.0
DRAIN_S = 1.0  # for the KV of requests that were cut


class BindError(Exception):
    """An address that cannot be listened on, in one line."""


async def run(loaded: Loaded) -> int:
    """Serve until SIGTERM or SIGINT: exit code 0. End with 1 if a part fails that nothing works without."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    service = Service(loaded)
    loop.add_signal_handler(signal.SIGHUP, service.hang_up)
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
    def __init__(self, loaded: Loaded) -> None:
        self._config = config = loaded.config  # as it was at the start; `gateway.config` is the present one
        self._session = new_session(config.limits)
        self.gateway = Gateway(loaded, self._session)
        self._poller = Poller(config, self.gateway.fleet, self._session)
        self._control: Place | None = None
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
        if self._config.control:
            await self._listen_for_control(Path(self._config.control))
        await self._listen("listen", http.front(self.gateway), self._config.listen)
        if self._config.metrics:
            await self._listen("metrics", http.metrics_only(self.gateway), self._config.metrics)
        self._poller.follow()
        addresses = " ".join(f"{key}={address}" for key, address in self.bound.items())
        log.info("cluster=%s model=%s up %s", self._config.cluster, self._config.model, addresses)

    async def broken(self) -> None:
        """Returns when a watcher or the notice listener has ended; they have no reason to."""
        watching = asyncio.create_task(self._poller.broken.wait(), name="watch of the watches")
        listening = self._listener.task if self._listener else None
        try:
            await asyncio.wait(
                [watching, *([listening] if listening else [])], return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            watching.cancel()
        if listening is not None and listening.done():
            log.critical(
                "the notice listener has ended",
                exc_info=None if listening.cancelled() else listening.exception(),
            )

    def reload(self) -> None:
        """Read the file again and take it up; raises ReloadError, with everything as it was."""
        try:
            loaded = read_again(self.gateway.loaded)
        except ReloadError as error:
            self.gateway.metrics.count("pdctl_proxy_reloads_total", outcome="refused")
            log.error("reload refused: %s", error)
            raise
        self.gateway.metrics.count("pdctl_proxy_reloads_total", outcome="ok")
        self.gateway.adopt(loaded)
        self._poller.config = loaded.config
        if gone := self._poller.follow():
            self.gateway.in_background(end(gone))
        log.info("reloaded %s %s", loaded.path, loaded.digest)

    def hang_up(self) -> None:
        """SIGHUP: whoever sends it finds the outcome in the log."""
        log.info("SIGHUP: reading the configuration again")
        with contextlib.suppress(ReloadError):
            self.reload()

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
        if self._control:
            self._control.clear()
        await self._poller.close()
        if self._listener:
            await self._listener.close()
        await self._session.close()

    async def _listen_for_control(self, path: Path) -> None:
        control = Control(self.gateway, self._poller.look, self.reload)
        runner = web.AppRunner(control.application(), access_log=None, shutdown_timeout=0.25)
        await runner.setup()
        self._runners.append(runner)
        try:
            sock = bound(path)
            self._control = Place(path)
        except OSError as error:
            raise BindError(f"cannot listen on {path} (control): {reason(error)}") from error
        await web.SockSite(runner, sock).start()

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
