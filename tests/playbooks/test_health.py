from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from ansible.module_utils import pdctl_health
from ansible.module_utils.pdctl_health import Unhealthy, Wait, answer, answers_of
from ansible.module_utils.pdctl_sockets import command_of, unit_of

RUNNING = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "InvocationID": "new",
    "NRestarts": "0",
    "Result": "success",
    "Job": "",
    "MainPID": str(os.getpid()),
    "ControlGroup": "",
}
URL = "http://127.0.0.1:7100/health"


@pytest.fixture(autouse=True)
def no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdctl_health, "journal", lambda name: [f"last words of {name}"])


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 503)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def waiting(touched: bool = True, url: str = URL) -> Wait:
    return Wait({"name": "u.service", "health_url": url, "health_s": 30}, "old", touched)


def test_a_unit_serves_when_its_url_answers_200(server: str) -> None:
    assert waiting(url=server).is_over(RUNNING, {server: "200"}, 1.0)
    assert not waiting().is_over(RUNNING, {URL: "it answers 503"}, 1.0)


@pytest.mark.parametrize("state", [{"Job": "17"}, {"InvocationID": "old"}, {"SubState": "start-pre"}])
def test_the_old_process_does_not_answer_for_the_new_one(state: dict[str, str]) -> None:
    assert not waiting().is_over({**RUNNING, **state}, {URL: "200"}, 1.0)


def test_a_unit_that_was_not_touched_may_be_its_old_self(server: str) -> None:
    wait = waiting(touched=False, url=server)
    assert wait.is_over({**RUNNING, "InvocationID": "old"}, {server: "200"}, 0.0)


def test_the_answer_of_another_process_is_not_the_units_own(server: str) -> None:
    """Its own process is `idle`; what answers is this one."""
    wait = waiting(url=server)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as idle:
        state = {**RUNNING, "MainPID": str(idle.pid)}
        assert not wait.is_over(state, {server: "200"}, 1.0)
        with pytest.raises(Unhealthy, match=rf"within 30 s: port \d+ is held by .+ \(pid {os.getpid()}\)"):
            wait.is_over(state, {server: "200"}, 31.0)


@pytest.mark.parametrize("sub", ["auto-restart", "failed"])
def test_a_unit_that_ended_while_another_process_holds_its_port_is_told_so_at_once(
    server: str, sub: str
) -> None:
    state = {**RUNNING, "ActiveState": "failed" if sub == "failed" else "activating", "SubState": sub}
    port = server.rsplit(":", 1)[1]
    with pytest.raises(Unhealthy, match=rf"u\.service: port {port} is held by .+ \(pid {os.getpid()}\)"):
        waiting(url=server).is_over(state, {}, 0.1)


def test_a_port_that_a_unit_of_the_same_step_still_holds_is_waited_for(server: str) -> None:
    holder = unit_of(os.getpid()) or command_of(os.getpid())
    row = {"name": "u.service", "health_url": server, "health_s": 30}
    state = {**RUNNING, "ActiveState": "activating", "SubState": "auto-restart"}
    assert not Wait(row, "old", True, frozenset({holder})).is_over(state, {}, 0.1)


@pytest.mark.parametrize("ended", ["failed", "inactive"])
def test_a_unit_that_has_ended_ends_the_wait_at_once_with_its_journal(ended: str) -> None:
    state = {**RUNNING, "ActiveState": ended, "SubState": "dead", "Result": "exit-code"}
    with pytest.raises(Unhealthy, match=r"u\.service: it has ended \(dead, result exit-code\)") as caught:
        waiting().is_over(state, {}, 0.1)
    assert caught.value.journal == {"u.service": ["last words of u.service"]}


def test_a_third_restart_ends_the_wait() -> None:
    wait = waiting()
    state = {**RUNNING, "ActiveState": "activating", "SubState": "auto-restart"}
    for restarts in ("5", "6", "7"):
        assert not wait.is_over({**state, "NRestarts": restarts}, {}, 1.0)
    with pytest.raises(Unhealthy, match=r"it ended again and again after its start \(3 times\)"):
        wait.is_over({**state, "NRestarts": "8"}, {}, 1.0)


def test_a_unit_that_never_answers_is_unhealthy_after_its_time_with_what_was_seen() -> None:
    words = r"not healthy within 30 s: it answers 503; still loading, \d+\.\d GB read$"
    with pytest.raises(Unhealthy, match=words) as caught:
        waiting().is_over(RUNNING, {URL: "it answers 503"}, 31.0)
    assert caught.value.why == {"u.service": "did not become healthy in 30 s"}


def test_a_unit_that_serves_with_less_than_it_needs_is_not_healthy(server: str) -> None:
    row = {"name": "u.service", "health_url": server, "health_s": 30}
    enough = Wait({**row, "limits": [["Max open files", "16"]]}, "old", True)
    assert enough.is_over(RUNNING, {server: "200"}, 1.0)
    short = Wait({**row, "limits": [["Max open files", "unlimited"]]}, "old", True)
    with pytest.raises(
        Unhealthy, match=r"u\.service: Max open files is \d+, it needs unlimited: what lowers it"
    ):
        short.is_over(RUNNING, {server: "200"}, 1.0)


def test_without_a_url_a_second_in_one_invocation_is_needed() -> None:
    wait = waiting(url="")
    assert not wait.is_over(RUNNING, {}, 0.1)
    assert not wait.is_over({**RUNNING, "InvocationID": "next"}, {}, 1.0)
    assert wait.is_over({**RUNNING, "InvocationID": "next"}, {}, 2.0)
    assert waiting(touched=False, url="").is_over(RUNNING, {}, 0.0)


def test_an_answer_is_its_status_or_the_reason_for_none(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert answer(f"{server}/health") == "200"
    assert answer(f"{server}/other") == f"{server}/other answers 503"
    assert answers_of([f"{server}/health", f"{server}/other", ""])[f"{server}/health"] == "200"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert "does not answer: [Errno 111]" in answer(f"http://127.0.0.1:{port}/health")


def test_a_unit_that_answers_with_two_ucx_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdctl_health, "members", lambda group: [1, 2])
    monkeypatch.setattr(pdctl_health, "loaded_twice", lambda pids, name: ["/a/libucp.so.0", "/b/libucp.so.0"])
    with pytest.raises(Unhealthy, match="two UCX loaded in one process, /a/libucp"):
        waiting(url="").refuse_two_ucx(RUNNING)
