"""A real proxy in its own process before engines that only wait, for what hosts ask of its control socket."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_drain, pdctl_observe_units
from ansible.module_utils.pdctl_control import ask_proxy, proxy_state


def until(condition: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


class Engine(ThreadingHTTPServer):
    """Healthy at once; an answer comes when `gate` is open."""

    daemon_threads = True

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.say(200 if self.path == "/health" else 404, {})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        engine = self.server
        assert isinstance(engine, Engine)
        engine.gate.wait(20)
        self.say(200, {"choices": [{"index": 0, "text": "x", "finish_reason": "length"}]})

    def say(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: object) -> None:
        """Nobody reads it."""


@dataclass
class Front:
    """An aggregated cluster with `server-0`, `server-1`, … behind a proxy."""

    folder: Path
    engines: dict[str, Engine]
    port: int
    process: subprocess.Popen[str] | None = None
    asked: list[threading.Thread] = field(default_factory=list)

    @property
    def control(self) -> str:
        return str(self.folder / "control.sock")

    @property
    def file(self) -> Path:
        return self.folder / "proxy.json"

    def write(self, names: list[str], **more: Any) -> None:
        config = {
            "cluster": "chat",
            "mode": "aggregated",
            "model": "m",
            "listen": {"host": "127.0.0.1", "port": self.port},
            "control": self.control,
            "servers": [{"name": name, "url": self.engines[name].url} for name in names],
            "health": {"interval_s": 0.05},
            **more,
        }
        self.file.write_text(json.dumps(config))

    def start(self) -> None:
        words = [sys.executable, "-m", "pdctl.proxy", "--config", str(self.file)]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        assert any(" up listen=" in line for line in self.process.stderr)
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        until(lambda: all(member["up"] for member in self.members().values()))

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def members(self) -> dict[str, dict[str, Any]]:
        return {member["name"]: member for member in proxy_state(self.control)["members"]}

    def only(self, servers: int) -> Front:
        """The first of them in the list, nobody drained, apart or hanging."""
        for engine in self.engines.values():
            engine.gate.set()
        for thread in self.asked:
            thread.join()
        self.write(list(self.engines)[:servers])
        names = [m["name"] for m in ask_proxy(self.control, "POST", "/reload")["members"]]
        ask_proxy(self.control, "POST", "/sides", {"new": []})
        ask_proxy(self.control, "POST", "/undrain", {"instances": names})
        until(lambda: all(member["up"] for member in self.members().values()))
        return self

    def drained(self) -> list[str]:
        return [name for name, member in self.members().items() if member["drained"]]

    def ask(self) -> None:
        """One request in the background."""
        url = f"http://127.0.0.1:{self.port}/v1/completions"
        request = urllib.request.Request(url, b'{"prompt": "x"}', {"Content-Type": "application/json"})
        thread = threading.Thread(target=lambda: urllib.request.urlopen(request, timeout=20).close())
        thread.start()
        self.asked.append(thread)


@contextmanager
def front(folder: Path, servers: int = 2) -> Iterator[Front]:
    engines = {f"server-{i}": Engine() for i in range(servers)}
    with socket.create_server(("127.0.0.1", 0)) as free:
        found = Front(folder, engines, port=free.getsockname()[1])
    with ExitStack() as stack:
        for engine in engines.values():
            threading.Thread(target=engine.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(engine.server_close)
            stack.callback(engine.shutdown)
        found.write(list(engines))
        found.start()
        stack.callback(found.kill)
        yield found
        for engine in engines.values():
            engine.gate.set()
        for thread in found.asked:
            thread.join()


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not there now will not come."""
    for module in (pdctl_drain, pdctl_observe_units):
        monkeypatch.setattr(module, "START_S", 0.0)


def systemd_says(monkeypatch: pytest.MonkeyPatch, folder: Path, **state: str) -> None:
    """A `systemctl` first in PATH shows this of any one unit; the file `asked` tells that it was called."""
    shown = {"LoadState": "loaded", "UnitFileState": "enabled", "MainPID": "0", **state}
    (folder / "next").write_text("".join(f"{name}={value}\n" for name, value in shown.items()))
    (folder / "next").replace(folder / "state")
    program = folder / "bin/systemctl"
    if not program.exists():
        program.parent.mkdir()
        program.write_text(
            f"#!/bin/sh\ntouch '{folder}/asked'\n"
            f"cat '{folder}/state' 2>/dev/null || {{ echo 'cannot ask systemd' >&2; exit 1; }}\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
