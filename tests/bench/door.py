"""A scripted front door: a real HTTP server on loopback that answers exactly what a test tells it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from pdctl.bench.client import Target, Workload
from pdctl.bench.prompts import Vocabulary

MODEL = "tiny"
DONE = b"data: [DONE]\n\n"

Step = bytes | float  # write this, or wait that long


@dataclass(frozen=True)
class Script:
    steps: tuple[Step, ...]
    status: int = 200
    content_type: str = "text/event-stream"
    breaks_off: bool = False  # close the connection without ending the answer


HANG = Script((30.0,))


@dataclass
class Door:
    base_url: str = ""
    port: int = 0
    bodies: list[dict] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    in_flight: int = 0
    peak: int = 0
    cut: int = 0  # answers that the client did not wait for
    connections: set[object] = field(default_factory=set)
    metrics: Callable[[], str] = lambda: ""
    models: bytes = json.dumps({"data": [{"id": MODEL}]}).encode()

    @property
    def target(self) -> Target:
        return Target(self.base_url, MODEL)


def event(body: object) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def chunk(text: str = "a", finish: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "text": text, "finish_reason": finish}]})


def usage(prompt: int, completion: int) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}})


def tokens(count: int, gap: float = 0.0, prompt: int = 8) -> Script:
    """A sound answer: `count` chunks of a token each, `gap` seconds apart."""
    steps: list[Step] = []
    for index in range(count):
        steps += [gap, chunk(finish="length" if index == count - 1 else None)]
    return Script((*steps, usage(prompt, count) + DONE))


def workload(**changes: object) -> Workload:
    small = {
        "num_prompts": 1,
        "concurrency": 1,
        "input_len": 8,
        "output_len": 4,
        "vocabulary": Vocabulary("tokens", 100, 1000),
        "seed": 7,
        "request_timeout_s": 5.0,
        "time_limit_s": 20.0,
    }
    return Workload(**(small | changes))  # type: ignore[arg-type]


@asynccontextmanager
async def opened(script: Callable[[int], Script] | Iterable[Script]) -> AsyncIterator[Door]:
    """`script` gives the answer to the n-th completion: a function of n, or a list that starts over."""
    listed = None if callable(script) else tuple(script)
    choose = script if callable(script) else lambda n: listed[n % len(listed)]
    door = Door()
    app = web.Application()

    async def completions(request: web.Request) -> web.StreamResponse:
        return await _completion(request, door, choose)

    async def models(_: web.Request) -> web.Response:
        return web.Response(body=door.models)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=door.metrics())

    app.router.add_post("/v1/completions", completions)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    door.port = runner.addresses[0][1]
    door.base_url = f"http://127.0.0.1:{door.port}"
    try:
        yield door
    finally:
        await runner.cleanup()


async def _completion(
    request: web.Request, door: Door, choose: Callable[[int], Script]
) -> web.StreamResponse:
    number = len(door.bodies)
    door.bodies.append(await request.json())
    door.headers.append(dict(request.headers))
    door.connections.add(request.transport)
    door.in_flight += 1
    door.peak = max(door.peak, door.in_flight)
    try:
        return await _play(request, choose(number))
    except (asyncio.CancelledError, ConnectionResetError):
        door.cut += 1
        raise
    finally:
        door.in_flight -= 1


async def _play(request: web.Request, script: Script) -> web.StreamResponse:
    answer = web.StreamResponse(status=script.status, headers={"Content-Type": script.content_type})
    answer.enable_chunked_encoding()
    await answer.prepare(request)
    for step in script.steps:
        if isinstance(step, bytes):
            await answer.write(step)
        elif step:
            await asyncio.sleep(step)
    if script.breaks_off and request.transport:
        request.transport.close()
    else:
        await answer.write_eof()
    return answer
