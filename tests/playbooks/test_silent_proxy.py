"""A proxy that is there and does not answer: no reason to restart it, and no reason to guess."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_control
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_observe_units import NOTHING_LOADED, observe_control, observe_unit
from ansible.module_utils.pdctl_remember import remember

from tests.playbooks.front import hurry
from tests.playbooks.test_observe_units import ROW, process

STATE: dict[str, Any] = {
    "format": "pdctl-control/1",
    "config": "sha256:1",
    "sides": [],
    "members": [{"name": "server-1", "drained": True}],
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(pdctl_control, "ANSWER_S", 0.2)


@contextmanager
def listener(folder: Path, silent: int, status: str = "200 OK", **state: Any) -> Iterator[str]:
    """A control socket that says nothing on the first `silent` connections, and answers all later ones."""
    path = folder / "control.sock"
    body = json.dumps({**STATE, **state})
    with ExitStack() as held, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def work() -> None:
            with contextlib.suppress(OSError):  # shut down: the test is over
                for number in range(silent + 1000):
                    connection = held.enter_context(server.accept()[0])
                    if number >= silent:
                        connection.recv(65536)
                        connection.sendall(f"HTTP/1.0 {status}\r\n\r\n{body}".encode())
                        connection.close()

        worker = threading.Thread(target=work)
        worker.start()
        try:
            yield str(path)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            worker.join()


def test_one_that_is_silent_once_is_asked_again(tmp_path: Path) -> None:
    with listener(tmp_path, silent=1) as path:
        assert observe_control(path) == {"loaded": "sha256:1", "drained": ["server-1"], "sides": []}


@pytest.mark.parametrize(
    ("silent", "status", "words"),
    [
        (1000, "200 OK", r"the proxy was silent for 0\.2 s"),
        (0, "500 Internal Server Error", "answered with status 500"),
    ],
)
def test_one_that_does_not_answer_makes_its_host_unseen_not_its_process_stale(
    tmp_path: Path, silent: int, status: str, words: str
) -> None:
    with (
        listener(tmp_path, silent, status) as path,
        process() as state,
        pytest.raises(OSError, match=f"{ROW['name']}: {words}.*`systemctl restart {ROW['name']}`"),
    ):
        observe_unit(dict(ROW, control=path), state, set(), {})


def test_one_that_takes_no_connection_any_more_is_silent_too(tmp_path: Path) -> None:
    """connect(2) on a unix socket whose queue is full: EAGAIN."""
    path = str(tmp_path / "control.sock")
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(path)
        server.listen(0)
        with contextlib.suppress(BlockingIOError):
            for _ in range(10):
                waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(path)
        with process() as state, pytest.raises(OSError, match=f"{ROW['name']}: the proxy was silent"):
            observe_unit(dict(ROW, control=path), state, set(), {})


def test_a_socket_on_which_nobody_listens_says_that_nothing_is_loaded(tmp_path: Path) -> None:
    path = str(tmp_path / "control.sock")
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(path)
    assert Path(path).exists()
    assert observe_control(path) == observe_control(str(tmp_path / "none.sock")) == NOTHING_LOADED


def test_only_a_restart_brings_one_of_another_format_to_words(tmp_path: Path) -> None:
    """It is of another pdctl; were its host left out, nothing could ever bring it up to date."""
    with listener(tmp_path, 0, format="pdctl-control/9") as path:
        assert observe_control(path) == NOTHING_LOADED


def test_what_a_silent_one_drains_is_not_recorded_as_nothing(tmp_path: Path) -> None:
    with listener(tmp_path, silent=1000) as path, pytest.raises(Problem, match=r"not recorded.* silent for"):
        remember({"cluster": "chat", "control": path, "record": str(tmp_path / "record.json")})
