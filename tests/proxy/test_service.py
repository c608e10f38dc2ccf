"""The proxy as a service: its endpoints, its start, its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pdctl.proxy.tasks import end

from .cluster import cluster, config_of, until
from .engines import FakeDecoder, FakePrefiller


async def test_the_proxy_says_what_it_sees() -> None:
    async with cluster(1, 2, metrics={"host": "127.0.0.1", "port": 0}) as c:
        await c.complete("a b", max_tokens=2)
        assert (await c.get("/health")).status == 200
        ready = await c.get("/ready")
        assert (ready.status, ready.json["ready"]) == (200, True)
        assert [item["name"] for item in ready.json["instances"]] == ["prefiller-0", "decoder-0", "decoder-1"]
        assert (await c.get("/version")).json == {"proxy": "0.1.0", "simulated": False}
        assert (await c.get("/v1/models")).json["data"][0]["id"] == "m"
        text = (await c.get("/metrics")).text
        async with c.session.get(f"http://{c.service.bound['metrics']}/metrics") as other:
            assert (await other.text()).splitlines()[:2] == text.splitlines()[:2]
    assert 'pdctl_proxy_requests_total{endpoint="completions",outcome="ok"} 1' in text
    assert 'pdctl_proxy_instance_up{instance="decoder-1",role="decoder"} 1' in text
    assert 'pdctl_proxy_prefill_seconds_bucket{le="+Inf"} 1' in text
    assert "pdctl_proxy_first_decode_byte_seconds_count 1" in text
    assert 'pdctl_proxy_notifications_total{kind="counted"} 1' in text


async def test_one_simulated_instance_makes_the_answer_simulated() -> None:
    async with cluster(1, 2) as c:
        c.decoders[1].simulated = True
        await until(lambda: c.gateway.fleet.of("decoder")[1].simulated)
        assert (await c.get("/version")).json["simulated"] is True


async def test_ready_needs_one_of_each_role() -> None:
    async with cluster(1, 2) as c:
        c.decoders[0].healthy = False
        await until(lambda: len(c.gateway.fleet.available("decoder")) == 1)
        assert (await c.get("/ready")).status == 200
        c.decoders[1].healthy = False
        await until(lambda: not c.gateway.fleet.available("decoder"))
        assert (await c.get("/ready")).status == 503
        assert (await c.get("/v1/models")).json["data"][0]["served_by"] == "prefiller-0"
        assert (await c.get("/health")).status == 200


async def test_health_checks_never_generate() -> None:
    async with cluster() as c:
        polls = c.gateway.fleet.members
        await until(lambda: all(member.started == 1000.0 for member in polls))
        assert [engine.received for engine in c.engines] == [[], []]


@pytest.mark.parametrize(
    ("body", "status"), [(b"", 400), (b"[1]", 400), (b'{"a":', 400), (b"\xff", 400), (b"[" * 100_000, 400)]
)
async def test_a_body_that_is_no_object_is_a_400(body: bytes, status: int) -> None:
    async with cluster() as c:
        reply = await c.post("/v1/completions", data=body)
    assert (reply.status, reply.json["error"]["code"]) == (status, status)


@pytest.mark.parametrize("depth", [600, 900, 990])
async def test_a_deeply_nested_body_is_passed_on_or_refused(depth: int) -> None:
    async with cluster(0, 0, 1) as c:
        body = b'{"x":' + b"[" * depth + b"]" * depth + b"}"
        assert (await c.post("/v1/completions", data=body)).status in (200, 400, 502)


async def test_a_body_that_does_not_unpack_is_a_400() -> None:
    async with cluster() as c:
        reply = await c.post("/v1/completions", data=b"no gzip", headers={"Content-Encoding": "gzip"})
    assert reply.status == 400


async def test_losing_the_notice_listener_is_noticed() -> None:
    async with cluster() as c:
        broken = asyncio.create_task(c.service.broken())
        assert c.service._listener is not None
        c.service._listener._socket.close()
        await until(broken.done)


async def test_a_long_body_and_unknown_paths_are_errors_of_the_same_shape() -> None:
    async with cluster(limits={"body_bytes": 1000}) as c:
        assert (await c.complete("a " * 1000)).json["error"]["code"] == 413
        assert (await c.get("/v1/nothing")).json["error"]["code"] == 404
        wrong = await c.get("/v1/completions")
        assert (wrong.json["error"]["code"], wrong.headers["Allow"]) == (405, "POST")


async def test_logs_hold_no_prompt_no_answer_and_no_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="pdctl.proxy")
    async with cluster(decode_leg="append-first-token", health={"interval_s": 60}) as c:
        headers = {"Authorization": "Bearer s3cr3t"}
        await c.post("/v1/completions", json={"prompt": "pr1vate words", "max_tokens": 3}, headers=headers)
        await c.decoders[0].stop()
        await c.post("/v1/completions", json={"prompt": "pr1vate words", "max_tokens": 3}, headers=headers)
        c.decoders[0].kv.clear()
    text = caplog.text
    assert "outcome=ok" in text
    assert "prefiller=prefiller-0" in text
    assert "outcome=upstream_error" in text
    for private in ("pr1vate", "s3cr3t", " t0", "first"):
        assert private not in text


async def test_a_stopping_proxy_takes_no_new_request() -> None:
    async with cluster() as c:
        c.gateway.closing = True
        assert (await c.complete(max_tokens=2)).status == 503
        assert (await c.get("/ready")).status == 503
        assert (await c.get("/health")).status == 200


async def start(config: dict[str, Any], tmp_path: Path) -> asyncio.subprocess.Process:
    path = tmp_path / "proxy.json"
    path.write_text(json.dumps(config))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "pdctl.proxy", "--config", str(path)),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONWARNINGS": "error::ResourceWarning"},
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_sigterm_finishes_what_is_in_flight_and_exits_0(tmp_path: Path) -> None:
    decoder = FakeDecoder("decoder-0", [7300])
    prefiller = FakePrefiller("prefiller-0", [decoder])
    ports = [free_port(), free_port()]
    for engine in (prefiller, decoder):
        await engine.start()
    config = config_of([prefiller], [decoder], [], 8, {})
    config["listen"]["port"] = ports[0]
    config["notification"] = {"host": "127.0.0.1", "port": ports[1]}
    prefiller.notify_address = f"tcp://127.0.0.1:{ports[1]}"
    decoder.gap_s = 0.05
    process = await start(config, tmp_path)
    url = f"http://127.0.0.1:{ports[0]}"
    async with aiohttp.ClientSession() as session:
        await until(lambda: decoder_is_known(ports[0]), 10)
        body = {"prompt": "a b", "max_tokens": 30, "stream": True}
        while (response := await session.post(f"{url}/v1/completions", json=body)).status == 503:
            response.close()
            await asyncio.sleep(0.02)
        await response.content.readany()
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        rest = await response.content.read()
        assert rest.endswith(b"data: [DONE]\n\n")
    assert await process.wait() == 0
    assert time.monotonic() - began < 10
    assert process.stderr is not None
    lines = (await process.stderr.read()).decode().splitlines()
    assert all("Traceback" not in line and "Warning" not in line for line in lines), lines
    for engine in (prefiller, decoder):
        await engine.stop()


def decoder_is_known(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("key", ["listen", "notification", "metrics"])
async def test_an_address_in_use_is_one_line_and_exit_code_1(key: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        prefiller, decoder = FakePrefiller("p", []), FakeDecoder("d", [7300])
        prefiller.port = decoder.port = 1
        config = config_of([prefiller], [decoder], [], 8, {})
        process = await start({**config, key: {"host": "127.0.0.1", "port": port}}, tmp_path)
        assert await process.wait() == 1
        assert process.stderr is not None
        text = (await process.stderr.read()).decode()
    assert text == f"pdctl_proxy: cannot listen on 127.0.0.1:{port} ({key}): Address already in use\n"


async def test_a_task_that_misses_one_cancellation_is_told_again() -> None:
    heard = 0

    async def hard_of_hearing() -> None:
        nonlocal heard
        while heard < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                heard += 1

    task = asyncio.create_task(hard_of_hearing())
    await asyncio.sleep(0)
    await end([task])
    assert (task.done(), heard) == (True, 2)
