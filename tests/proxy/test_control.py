"""Drain and undrain over the control socket, with real sockets and fake engines."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import sys
from pathlib import Path

import pytest
from aiohttp import web

from pdctl.proxy.config import load
from pdctl.proxy.service import BindError, Service

from .cluster import Cluster, Reply, cluster, until


async def drain(c: Cluster, *names: str) -> None:
    await c.control("/drain", {"instances": list(names)})


async def undrain(c: Cluster, *names: str) -> None:
    await c.control("/undrain", {"instances": list(names)})


def served_by(replies: list[Reply], role: str) -> set[str]:
    assert {reply.status for reply in replies} == {200}
    return {reply.headers[f"x-pdctl-{role}"] for reply in replies}


async def test_the_state_names_the_configuration_and_every_member() -> None:
    async with cluster(1, 2) as c:
        state = await c.control("/state")
        assert state["format"] == "pdctl-control/1" and state["config"] == load(c.file).digest
        assert [member["name"] for member in state["members"]] == ["prefiller-0", "decoder-0", "decoder-1"]
        member = state["members"][2]
        assert member.pop("idle_s") >= 0
        assert member == {
            "name": "decoder-1",
            "role": "decoder",
            "up": True,
            "drained": False,
            "in_flight": 0,
            "held": 0,
            "new": False,
        }


async def test_only_the_owner_may_use_the_socket() -> None:
    async with cluster() as c:
        assert stat.S_IMODE(Path(c.config["control"]).stat().st_mode) == 0o600


async def test_a_drained_instance_gets_nothing_new_and_finishes_what_it_has() -> None:
    async with cluster(2, 2) as c:
        c.decoders[0].gap_s = c.decoders[1].gap_s = 0.05
        running = [asyncio.create_task(c.complete([i], max_tokens=4, stream=True)) for i in range(4)]
        await until(lambda: all(decoder.generations() for decoder in c.decoders))
        await drain(c, "decoder-1", "prefiller-1")
        assert (await c.member("decoder-1"))["idle_s"] is None
        later = [await c.complete([i], max_tokens=1) for i in range(4)]
        assert served_by(later, "decoder") == {"decoder-0"}
        assert served_by(later, "prefiller") == {"prefiller-0"}
        assert served_by(await asyncio.gather(*running), "decoder") == {"decoder-0", "decoder-1"}
        member = await c.member("decoder-1")
        assert member["in_flight"] == member["held"] == 0 and member["idle_s"] >= 0 and member["up"]
        await undrain(c, "decoder-1", "prefiller-1")
        assert served_by([await c.complete([i], max_tokens=1) for i in range(4)], "decoder") == {
            "decoder-0",
            "decoder-1",
        }


@pytest.mark.parametrize("connector", ["lmcache", "nixl"])
@pytest.mark.parametrize("role", ["prefiller", "decoder"])
async def test_requests_wait_while_the_only_one_of_a_role_is_drained(connector: str, role: str) -> None:
    async with cluster(connector=connector) as c:
        await drain(c, f"{role}-0")
        waiting = [asyncio.create_task(c.complete([i], max_tokens=2)) for i in range(3)]
        await until(lambda: c.gateway.admission.waiting == 3)
        assert (await c.control("/state"))["waiting"] == 3
        await undrain(c, f"{role}-0")
        assert [reply.status for reply in await asyncio.gather(*waiting)] == [200] * 3


async def test_text_prompts_wait_for_a_prefiller_that_can_count_their_tokens() -> None:
    async with cluster() as c:
        await drain(c, "prefiller-0")
        waiting = asyncio.create_task(c.complete("a b c", max_tokens=2))
        await until(lambda: c.gateway.admission.waiting == 1)
        await undrain(c, "prefiller-0")
        assert (await waiting).status == 200


async def test_requests_wait_for_a_drained_server_that_restarts_meanwhile() -> None:
    async with cluster(0, 0, servers=1) as c:
        await drain(c, "server-0")
        await c.servers[0].stop()
        await until(lambda: not c.gateway.fleet.members[0].up)
        waiting = asyncio.create_task(c.complete(max_tokens=2))
        await until(lambda: c.gateway.admission.waiting == 1)
        await c.servers[0].start()
        await undrain(c, "server-0")
        assert (await waiting).status == 200


async def test_waiting_for_an_undrain_ends_with_the_queue_s_limit() -> None:
    async with cluster(limits={"queue_wait_s": 0.1}, connector="nixl") as c:
        await drain(c, "decoder-0")
        reply = await c.complete(max_tokens=2)
        assert reply.status == 429 and "no decoder was undrained within 0.1 s" in reply.text
        assert "Retry-After" in reply.headers


async def test_an_instance_that_is_down_and_not_drained_is_not_waited_for() -> None:
    async with cluster(2, 1, connector="nixl") as c:
        await c.decoders[0].stop()
        await until(lambda: not c.gateway.fleet.available("decoder"))
        assert (await c.complete(max_tokens=2)).status == 503
        await drain(c, "prefiller-1")
        assert (await c.complete(max_tokens=2)).status == 503


async def test_a_drained_instance_that_is_down_can_be_drained_and_undrained() -> None:
    async with cluster(1, 2) as c:
        await c.decoders[1].stop()
        await drain(c, "decoder-1")
        await undrain(c, "decoder-1")
        assert not (await c.member("decoder-1"))["up"]
        assert served_by([await c.complete([1], max_tokens=1)], "decoder") == {"decoder-0"}


async def test_undraining_notices_a_restart_before_the_first_new_request() -> None:
    async with cluster(1, 1, health={"interval_s": 60}) as c:
        await drain(c, "decoder-0")
        c.decoders[0].process_start = 2000.0
        assert not c.gateway.fleet.stale
        await undrain(c, "decoder-0")
        assert c.gateway.fleet.stale == {("prefiller-0", "decoder-0")}
        assert (await c.complete([1], max_tokens=1)).status == 200


async def test_a_deliberate_restart_ends_the_cool_down_of_the_process_before() -> None:
    async with cluster(1, 1, health={"interval_s": 60, "failures": 1, "cooldown_s": 60}) as c:
        c.gateway.fleet.failed(c.gateway.fleet.of("decoder")[0])
        assert (await c.complete([1], max_tokens=1)).status == 503
        await drain(c, "decoder-0")
        c.decoders[0].process_start = 2000.0
        await undrain(c, "decoder-0")
        assert (await c.complete([1], max_tokens=1)).status == 200


async def test_a_later_drain_wins_over_an_undrain_that_is_still_looking() -> None:
    async with cluster(1, 1, health={"interval_s": 60}) as c:
        await drain(c, "decoder-0")
        gate = asyncio.Event()
        look = c.service._poller._get

        async def slow(*asked: object) -> tuple[int, str]:
            await gate.wait()
            return await look(*asked)  # type: ignore[arg-type]

        c.service._poller._get = slow  # type: ignore[method-assign,assignment]
        undraining = asyncio.create_task(undrain(c, "decoder-0"))
        await asyncio.sleep(0.02)
        await drain(c, "decoder-0")
        gate.set()
        await undraining
        assert (await c.member("decoder-0"))["drained"]
        c.service._poller._get = look  # type: ignore[method-assign]


async def test_what_is_asked_wrongly_changes_nothing() -> None:
    async with cluster(1, 2) as c:
        answer = await c.control("/drain", {"instances": ["decoder-1", "decoder-9"]}, status=404)
        assert answer == {
            "error": "no instance named decoder-9",
            "known": ["decoder-0", "decoder-1", "prefiller-0"],
        }
        for body in ({}, {"instances": "decoder-1"}, {"instances": [1]}, {"instances": [], "more": 1}):
            assert "body" in (await c.control("/drain", body, status=400))["error"]
        await c.control("/nowhere", {}, status=404)
        await c.control("/drain", status=405)
        assert not any(member["drained"] for member in (await c.control("/state"))["members"])


async def test_two_clients_at_once_leave_what_the_last_one_asked_for() -> None:
    async with cluster(2, 2) as c:
        names = ["decoder-0", "decoder-1", "prefiller-0", "prefiller-1"]
        await asyncio.gather(*(drain(c, name) for name in names * 3), *(undrain(c, name) for name in names))
        await drain(c, "decoder-0")
        await undrain(c, "decoder-1", "prefiller-0", "prefiller-1")
        drained = [m["name"] for m in (await c.control("/state"))["members"] if m["drained"]]
        assert drained == ["decoder-0"]


async def test_readiness_and_models_tell_drained_instances_apart() -> None:
    async with cluster(connector="nixl") as c:
        await drain(c, "decoder-0")
        ready = await c.get("/ready")
        assert ready.status == 503
        assert [item["drained"] for item in ready.json["instances"]] == [False, True]
        assert (await c.get("/v1/models")).status == 200
        assert (
            'pdctl_proxy_instance_drained{instance="decoder-0",role="decoder"} 1'
            in (await c.get("/metrics")).text
        )


async def test_a_socket_left_by_a_killed_proxy_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    async with cluster() as c:
        second = Service(load(c.file))
        with pytest.raises(BindError, match=r"control\): Address already in use"):
            await second.start()
        await second.stop()
        assert (await c.control("/state"))["members"]
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "control.sock"))
    left.close()
    file = tmp_path / "proxy.json"
    file.write_text(file_text(tmp_path))
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "pdctl.proxy", "--config", str(file))
    try:
        await until(lambda: answers(tmp_path / "control.sock"), 10)
    finally:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert not (tmp_path / "control.sock").exists()


def file_text(folder: Path) -> str:
    return (
        '{"cluster": "c", "mode": "aggregated", "model": "m", "listen": {"host": "127.0.0.1", "port": 0}, '
        f'"control": "{folder}/control.sock", "servers": [{{"name": "server-0", "url": "http://127.0.0.1:9"}}]}}'
    )


def answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(os.fspath(path))
        except OSError:
            return False
    return True


async def test_nobody_is_paired_over_the_sides() -> None:
    async with cluster(3, 2) as c:
        await c.control("/sides", {"new": ["decoder-1", "prefiller-1", "prefiller-2"]})
        replies = [await c.complete([i], max_tokens=1) for i in range(12)]
        pairs = {(r.headers["x-pdctl-prefiller"], r.headers["x-pdctl-decoder"]) for r in replies}
        new = {("prefiller-1", "decoder-1"), ("prefiller-2", "decoder-1")}
        assert pairs == {("prefiller-0", "decoder-0"), *new}
        await c.control("/sides", {"new": []})
        replies = [await c.complete([i], max_tokens=1) for i in range(12)]
        assert len({(r.headers["x-pdctl-prefiller"], r.headers["x-pdctl-decoder"]) for r in replies}) > 3


@pytest.mark.parametrize("connector", ["lmcache", "nixl"])
async def test_a_side_without_a_partner_gets_nothing(connector: str) -> None:
    async with cluster(2, 2, connector=connector, limits={"queue_wait_s": 0.1}) as c:
        await c.control("/sides", {"new": ["decoder-1"]})
        replies = [await c.complete([i], max_tokens=1) for i in range(4)]
        assert served_by(replies, "decoder") == {"decoder-0"}
        await drain(c, "decoder-0")
        assert (await c.complete([1], max_tokens=1)).status == 429


async def test_an_instance_that_does_not_answer_delays_its_undrain_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pdctl.proxy.control.LOOK_S", 0.05)
    async with cluster(1, 1, health={"interval_s": 60}) as c:
        await drain(c, "decoder-0")
        gate = asyncio.Event()
        answer = c.decoders[0]._get

        async def hanging(request: web.Request) -> web.StreamResponse:
            await gate.wait()
            return await answer(request)

        c.decoders[0]._get = hanging  # type: ignore[method-assign]
        await c.decoders[0].stop()
        await c.decoders[0].start()
        await undrain(c, "decoder-0")
        assert c.gateway.background and not (await c.member("decoder-0"))["drained"]
        gate.set()
