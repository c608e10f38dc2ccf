"""A checked configuration -> listening sockets and a running engine, until SIGTERM or the engine's death."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Mapping
from typing import Any

import zmq.asyncio
from aiohttp import web

from . import NAME
from .args import Arguments
from .connector import Connector, NoConnector
from .engine import Engine
from .errors import StartError
from .faults import FaultSwitch
from .http import Endpoints
from .lmcache import LMCache, read_lmcache
from .metrics import Metrics
from .nixl import Nixl, read_side_channel
from .pace import Pace
from .parameters import Parameters, version
from .receiver import Receiver
from .runtime import Runtime
from .sender import Sender
from .transfer import LMCACHE, NIXL, Transfer

log = logging.getLogger("simulator")

_ANNOUNCE_EVERY_S = 600


async def serve(
    arguments: Arguments, parameters: Parameters, transfer: Transfer, environ: Mapping[str, str]
) -> int:
    """Run until told to stop (0) or until the engine dies (1)."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    faults = FaultSwitch(parameters.faults)
    context = zmq.asyncio.Context()
    pace = Pace(parameters, faults, arguments.seed)
    metrics = Metrics(arguments.served_names[0], transfer.metric_family, version(parameters.vllm_version))
    runtime = Runtime(arguments, parameters, transfer, context, pace, metrics, faults)
    announcer = asyncio.get_running_loop().create_task(_announce(arguments))
    try:
        return await _run(runtime, environ, stop)
    finally:
        announcer.cancel()
        context.destroy(linger=0)


async def _run(runtime: Runtime, environ: Mapping[str, str], stop: asyncio.Event) -> int:
    lmcache = None
    if runtime.transfer.connector in LMCACHE:
        lmcache = read_lmcache(environ, runtime.arguments, runtime.transfer, runtime.parameters)
    connector = _connector(runtime, environ, lmcache)
    engine = Engine(runtime, connector)
    endpoints = Endpoints(runtime, engine)
    runners: list[web.AppRunner] = []
    try:
        await connector.start()
        engine.start()
        if await _ends_within(runtime, stop, runtime.parameters.start_s):
            return _exit_code(runtime)
        if lmcache and lmcache.values["internal_api_server_enabled"]:
            runners.append(await _internal_api(endpoints, lmcache))
        runners.append(
            await _listen(endpoints.application(), runtime.arguments.host, [runtime.arguments.port])
        )
        log.info("Application startup complete.")
        await _ends_within(runtime, stop, None)
        return _exit_code(runtime)
    finally:
        await engine.close()
        for runner in runners:
            await runner.cleanup()
        await connector.close()


def _connector(runtime: Runtime, environ: Mapping[str, str], lmcache: LMCache | None) -> Connector:
    if lmcache:
        return Sender(lmcache, runtime) if runtime.transfer.sends else Receiver(lmcache, runtime)
    if runtime.transfer.connector in NIXL:
        return Nixl(read_side_channel(environ, runtime), runtime)
    return NoConnector()


async def _internal_api(endpoints: Endpoints, lmcache: LMCache) -> web.AppRunner:
    """One port for the scheduler and one for each rank."""
    first = lmcache.values["internal_api_server_port_start"]
    ports = list(range(first, first + 1 + lmcache.ranks))
    return await _listen(endpoints.internal_application(), lmcache.values["internal_api_server_host"], ports)


async def _listen(app: web.Application, host: str, ports: list[int]) -> web.AppRunner:
    # A handler is cancelled when its client goes: the request leaves the engine, as in vLLM.
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    for port in ports:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            await runner.cleanup()
            raise StartError(f"cannot bind {host}:{port}: {error.strerror or error}") from error
        log.info("Listening on http://%s:%d", host, port)
    return runner


async def _ends_within(runtime: Runtime, stop: asyncio.Event, seconds: float | None) -> bool:
    """Whether a signal or the engine's death came within the time."""
    stopped = asyncio.get_running_loop().create_task(stop.wait())
    ends: set[asyncio.Future[Any]] = {stopped, runtime.faults.dead}
    try:
        done, _ = await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        stopped.cancel()


def _exit_code(runtime: Runtime) -> int:
    if not runtime.faults.dead.done():
        log.info("Shutting down.")
        return 0
    log.error("EngineDeadError: EngineCore encountered an issue: %s", runtime.faults.dead.result())
    return 1


async def _announce(arguments: Arguments) -> None:
    while True:
        log.warning(
            "%s: SIMULATED engine for %s on port %d: no model is run, its text and its speed are made up",
            NAME,
            arguments.served_names[0],
            arguments.port,
        )
        await asyncio.sleep(_ANNOUNCE_EVERY_S)
