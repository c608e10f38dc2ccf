"""A proxy with fake engines around it, all in this process; leaving it demands that nothing stays behind."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from pdctl.proxy.config import load
from pdctl.proxy.gateway import Gateway
from pdctl.proxy.service import Service

from .engines import FakeDecoder, FakeEngine, FakePrefiller

Json = dict[str, Any]
FAST = {"connect_s": 1, "prefill_s": 3, "notification_s": 0.3, "first_byte_s": 2, "queue_wait_s": 1}


@dataclass
class Reply:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Json:
        loaded: Json = json.loads(self.text)
        return loaded

    @property
    def events(self) -> list[str]:
        return [part.removeprefix("data: ") for part in self.text.split("\n\n") if part]

    @property
    def chunks(self) -> list[Json]:
        return [json.loads(part) for part in self.events if part != "[DONE]"]

    @property
    def streamed_text(self) -> str:
        return "".join(choice["text"] for chunk in self.chunks for choice in chunk.get("choices", ()))


@dataclass
class Cluster:
    service: Service
    session: aiohttp.ClientSession
    prefillers: list[FakePrefiller]
    decoders: list[FakeDecoder]
    servers: list[FakeDecoder]
    file: Path
    config: Json  # what stands in the file

    @property
    def gateway(self) -> Gateway:
        return self.service.gateway

    @property
    def url(self) -> str:
        return f"http://{self.service.bound['listen']}"

    @property
    def engines(self) -> list[FakeEngine]:
        return [*self.prefillers, *self.decoders, *self.servers]

    async def complete(self, prompt: Any = "a b c", path: str = "/v1/completions", **fields: Any) -> Reply:
        body = {"model": "m", "prompt": prompt, **fields}
        if "messages" in fields:
            del body["prompt"]
        return await self.post(path, json=body)

    async def post(self, path: str, **options: Any) -> Reply:
        async with self.session.post(self.url + path, **options) as response:
            return Reply(response.status, response.headers, await response.text())

    async def get(self, path: str) -> Reply:
        async with self.session.get(self.url + path) as response:
            return Reply(response.status, response.headers, await response.text())

    async def control(self, page: str, body: Json | None = None, *, status: int = 200) -> Json:
        """GET, or POST with a body, on the control socket."""
        connector = aiohttp.UnixConnector(self.config["control"])
        async with aiohttp.ClientSession("http://proxy", connector=connector) as session:
            asked = session.get(page) if body is None else session.post(page, json=body)
            async with asked as response:
                answer: Json = await response.json()
                assert response.status == status, answer
                return answer

    async def member(self, name: str) -> Json:
        state = await self.control("/state")
        found: Json = next(member for member in state["members"] if member["name"] == name)
        return found

    async def reload(self, *, status: int = 200, **changes: Any) -> Json:
        """Write other values into the file and have it read again."""
        self.config |= changes
        self.file.write_text(json.dumps(self.config))
        return await self.control("/reload", {}, status=status)

    def metric(self, name: str, **labels: str) -> float:
        return self.gateway.metrics.value(f"pdctl_proxy_{name}", **labels)

    def left_behind(self) -> Json:
        """Everything a finished request must not leave in the proxy, and KV on a decoder."""
        gateway = self.gateway
        slots = sum(gateway.admission.used(engine.name) for engine in self.decoders)
        found = {
            "in flight": gateway.in_flight,
            "background": gateway.background,
            "awaited notices": len(gateway.board),
            "queue": gateway.admission.waiting,
            "slots": slots,
            "members": sum(
                member.in_flight + member.held for member in (*gateway.fleet.members, *gateway.fleet.leaving)
            ),
            "kv": sum(engine.kv.total() for engine in self.decoders),
        }
        return {key: value for key, value in found.items() if value}


async def until(condition: Callable[[], object], seconds: float = 3.0) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def cluster(
    prefillers: int = 1,
    decoders: int = 1,
    servers: int = 0,
    *,
    tp: int = 1,
    slots: int = 64,
    leaks_kv: bool = False,
    **settings: Any,
) -> AsyncIterator[Cluster]:
    fakes = [
        FakeDecoder(f"decoder-{i}", [7300 + i * tp + rank for rank in range(tp)]) for i in range(decoders)
    ]
    sources = [FakePrefiller(f"prefiller-{i}", fakes) for i in range(prefillers)]
    wholes = [FakeDecoder(f"server-{i}") for i in range(servers)]
    async with AsyncExitStack() as stack:
        for engine in (*sources, *fakes, *wholes):
            await engine.start()
            stack.push_async_callback(engine.stop)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = config_of(sources, fakes, wholes, slots, settings) | {
            "control": str(folder / "control.sock")
        }
        file = folder / "proxy.json"
        file.write_text(json.dumps(config))
        service = Service(load(file))
        stack.push_async_callback(service.stop)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        )
        await service.start()
        for source in sources:
            source.notify_address = f"tcp://{service.bound.get('notification')}"
        await until(lambda: all(member.up for member in service.gateway.fleet.members))
        running = Cluster(service, session, sources, fakes, wholes, file, config)
        yield running
        if leaks_kv:
            for fake in fakes:
                fake.kv.clear()
        await until(lambda: not running.left_behind())


def config_of(
    prefillers: list[FakePrefiller],
    decoders: list[FakeDecoder],
    servers: list[FakeDecoder],
    slots: int,
    settings: Json,
) -> Json:
    limits, health = settings.pop("limits", {}), settings.pop("health", {})
    lmcache = settings.get("connector", "lmcache") == "lmcache" and not servers
    anywhere = {"host": "127.0.0.1", "port": 0}
    return {
        "cluster": "chat",
        "mode": "aggregated" if servers else "disaggregated",
        "connector": None if servers else "lmcache",
        "listen": anywhere,
        "model": "m",
        **({"notification": anywhere, "chunk_size": 4, "decode_leg": "original"} if lmcache else {}),
        "prefillers": [{"name": engine.name, "url": engine.url} for engine in prefillers],
        "decoders": [decoder_of(engine, slots) for engine in decoders],
        "servers": [{"name": engine.name, "url": engine.url} for engine in servers],
        "limits": {**FAST, **limits},
        "health": {"interval_s": 0.05, "failures": 3, "cooldown_s": 0.5, **health},
        **settings,
    }


def decoder_of(engine: FakeDecoder, slots: int) -> Json:
    alloc = [port + 100 for port in engine.init_ports]
    place = {"host": "127.0.0.1", "init_ports": engine.init_ports, "alloc_ports": alloc, "slots": slots}
    return {"name": engine.name, "url": engine.url, **place}
