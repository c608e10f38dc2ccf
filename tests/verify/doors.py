"""A proxy and engines that say what a test wants, on loopback, and a spec that leads to them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pdctl.spec.model import Cluster
from pdctl.topology import Topology, resolve

Answer = tuple[int, Any]  # status, and a body that becomes JSON unless it is text
Page = Answer | Callable[[Any], Answer]  # of what was posted
TEXT = {"choices": [{"text": "abc"}]}
VERSION: Answer = (200, {"version": "0.32.0"})
COMPLETIONS = "/v1/completions"


@contextmanager
def serving(pages: Mapping[str, Page]) -> Iterator[int]:
    """A server with these pages; the port it listens on."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages[self.path]
            size = int(self.headers.get("Content-Length", 0))
            posted = json.loads(self.rfile.read(size)) if size else None
            status, body = page(posted) if callable(page) else page
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("x-pdctl-decoder", "decoder-0")
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def cluster(
    proxy: Mapping[str, Page], engines: Mapping[str, Mapping[str, Page] | int], **stack: str
) -> Iterator[Topology]:
    """Engines by name, as pages or as the port of one that is gone; `server-0` makes it aggregated."""
    with ExitStack() as servers:
        pages = {"/ready": (200, {"ready": True}), COMPLETIONS: (200, TEXT), **proxy}
        front = servers.enter_context(serving(pages))
        ports = {
            name: given
            if isinstance(given, int)
            else servers.enter_context(serving({"/version": VERSION, **given}))
            for name, given in engines.items()
        }
        yield resolve(Cluster.model_validate(_spec(front, ports, stack)))


def _spec(front: int, ports: Mapping[str, int], stack: Mapping[str, str]) -> dict[str, Any]:
    def pool(role: str) -> dict[str, Any]:
        places = [
            {"host": "here", "ports": {"http": port}} for name, port in ports.items() if name.startswith(role)
        ]
        return {"placement": places}

    aggregated = "server-0" in ports
    pools = (
        {"mode": "aggregated", "instances": pool("server")}
        if aggregated
        else {"prefillers": pool("prefiller"), "decoders": pool("decoder")}
    )
    return {
        "cluster": "stub",
        "ssh": {"connection": "local"},
        "hosts": [{"name": "here", "address": "127.0.0.1"}],
        "engine": {"kind": "simulator"},
        "stack": dict(stack),
        "model": {"id": "pdctl/tiny", "served_name": "tiny"},
        "serving": {**pools, "proxy": {"ports": {"http": front}}},
    }
