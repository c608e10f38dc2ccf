"""The wait for the proxy against a real server on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from pdctl.errors import UnhealthyError
from pdctl.verify.http import Client
from pdctl.verify.ready import wait_ready


@contextmanager
def answering(*statuses: int) -> Iterator[tuple[Client, list[int]]]:
    """A server that gives these answers in turn, the last one for ever; and those it gave."""
    given: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given.append(statuses[min(len(given), len(statuses) - 1)])
            body = b'{"ready": false, "why": "prefiller-0 is down"}'
            self.send_response(given[-1])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Client("proxy", ("127.0.0.1", server.server_port)), given
        finally:
            server.shutdown()
            thread.join()


def test_an_instance_that_comes_back_is_waited_for() -> None:
    with answering(503, 503, 200) as (client, given):
        wait_ready(client)
    assert given == [503, 503, 200]


def test_what_stays_down_is_named_after_the_limit() -> None:
    with answering(503) as (client, given), pytest.raises(UnhealthyError) as caught:
        wait_ready(client, limit_s=0.3)
    assert "the proxy is not ready" in str(caught.value) and "prefiller-0 is down" in str(caught.value)
    assert len(given) >= 2
