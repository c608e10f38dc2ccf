"""The proxy against pdctl's engine simulator: an independent implementation of the protocol's other end."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pdctl.proxy.config import Loaded, parse
from pdctl.proxy.service import Service

from .cluster import until
from .test_service import free_port

CHUNK, SLOTS, RANKS = 8, 16, 2
SPEED = {"itl_ms": 1, "prefill_tokens_per_s": 1_000_000, "bytes_per_token": 64}


@asynccontextmanager
async def engine(folder: Path, role: str, version: str, **pd: Any) -> AsyncIterator[str]:
    """The URL of a simulated instance with LMCache in PD mode."""
    port, config = free_port(), folder / f"{role}.yaml"
    size = SLOTS * CHUNK * SPEED["bytes_per_token"]
    config.write_text(
        json.dumps({"enable_pd": True, "transfer_channel": "nixl", "pd_buffer_device": "cuda", **pd}).replace(
            "{", f'{{"chunk_size": {CHUNK}, "pd_buffer_size": {size}, ', 1
        )
    )
    extra = {"skip_last_n_tokens": 1} if version == "0.3.10" and role == "kv_consumer" else {}
    transfer = {"kv_connector": "LMCacheConnectorV1", "kv_role": role, "kv_connector_extra_config": extra}
    flags = ["--host", "127.0.0.1", "--port", str(port), "-tp", str(RANKS), "--max-model-len", "512"]
    flags += ["--no-enable-prefix-caching", "--kv-transfer-config", json.dumps(transfer)]
    simulated = json.dumps({**SPEED, "lmcache_version": version})
    env = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "LMCACHE_CONFIG_FILE": str(config),
        "PDCTL_SIMULATOR": simulated,
    }
    argv = [sys.executable, "-m", "pdctl.simulator", "serve", "tiny", *flags]
    with (folder / f"{role}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*argv, env=env, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def served(folder: Path, version: str, leg: str) -> AsyncIterator[tuple[Service, str]]:
    """A proxy before a prefiller and a decoder, and the decoder's URL."""
    notify = free_port()
    init, alloc = [free_port() for _ in range(RANKS)], [free_port() for _ in range(RANKS)]
    sender = {"pd_role": "sender", "pd_proxy_host": "127.0.0.1", "pd_proxy_port": notify}
    receiver = {"pd_role": "receiver", "pd_peer_host": "127.0.0.1"}
    receiver |= {"pd_peer_init_port": init, "pd_peer_alloc_port": alloc}  # type: ignore[dict-item]
    async with AsyncExitStack() as stack:
        prefiller = await stack.enter_async_context(engine(folder, "kv_producer", version, **sender))
        decoder = await stack.enter_async_context(engine(folder, "kv_consumer", version, **receiver))
        place = {"host": "127.0.0.1", "init_ports": init, "alloc_ports": alloc, "slots": SLOTS}
        config = parse(
            {
                "cluster": "c",
                "mode": "disaggregated",
                "connector": "lmcache",
                "listen": {"host": "127.0.0.1", "port": 0},
                "notification": {"host": "127.0.0.1", "port": notify},
                "model": "tiny",
                "chunk_size": CHUNK,
                "decode_leg": leg,
                "prefillers": [{"name": "prefiller-0", "url": prefiller}],
                "decoders": [{"name": "decoder-0", "url": decoder, **place}],
                "health": {"interval_s": 0.05},
            }
        )
        service = Service(Loaded(config))
        stack.push_async_callback(service.stop)
        await service.start()
        await until(service.gateway.fleet.ready, 20)
        yield service, decoder


@pytest.mark.parametrize(("version", "leg"), [("0.5.6", "original"), ("0.3.10", "append-first-token")])
async def test_text_and_usage_equal_an_undisaggregated_engine_s(
    version: str, leg: str, tmp_path: Path
) -> None:
    rng = random.Random(3)
    async with served(tmp_path, version, leg) as (service, decoder), aiohttp.ClientSession() as session:

        async def ask(url: str, body: dict[str, Any]) -> Any:
            async with session.post(f"{url}/v1/completions", json=body) as response:
                answer = await response.json()
                return answer["choices"][0]["text"], answer["choices"][0]["finish_reason"], answer["usage"]

        async def same(tokens: int, limit: int) -> bool:
            prompt = [rng.randrange(3, 60_000) for _ in range(tokens)]
            body = {"prompt": prompt, "max_tokens": limit, "temperature": 0}
            # A decoder that is asked directly finds no KV and computes everything itself.
            return bool(await ask(f"http://{service.bound['listen']}", body) == await ask(decoder, body))

        sizes = [(1, 5), (CHUNK, 1), (CHUNK + 1, 5), (100, 20), (SLOTS * CHUNK, 3), *[(30, 9)] * 10]
        assert all(await asyncio.gather(*(same(*size) for size in sizes)))
        await until(lambda: not service.gateway.background)
        async with session.get(f"{decoder}/metrics") as response:
            text = await response.text()
    values = {
        line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line[:1] != "#"
    }
    assert values["vllm:external_prefix_cache_hits_total"] >= sum(tokens - 1 for tokens, _ in sizes)
    assert values["lmcache:active_memory_objs_count"] == 0
