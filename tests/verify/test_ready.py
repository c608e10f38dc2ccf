"""The wait for the proxy against a real server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pdctl.errors import UnhealthyError
from pdctl.verify.http import Client
from pdctl.verify.ready import wait_ready
from tests.verify.doors import Answer, serving

# docs/proxy.md, /ready
BODY = {
    "ready": False,
    "cluster": "chat, with a name so long that the body is longer than what an error shows" * 5,
    "instances": [
        {"name": "prefiller-0", "up": True, "in_rotation": True},
        {"name": "decoder-0", "up": False, "in_rotation": False},
        {"name": "decoder-1", "up": True, "in_rotation": False},
    ],
}


@contextmanager
def answering(*statuses: int, body: Any = BODY) -> Iterator[tuple[Client, list[int]]]:
    """A server that gives these answers in turn, the last one for ever; and those it gave."""
    given: list[int] = []

    def ready(_: Any) -> Answer:
        given.append(statuses[min(len(given), len(statuses) - 1)])
        return given[-1], body

    with serving({"/ready": ready}) as port:
        yield Client("h1/proxy", ("127.0.0.1", port)), given


def test_an_instance_that_comes_back_is_waited_for() -> None:
    with answering(503, 503, 200) as (client, given):
        wait_ready(client)
    assert given == [503, 503, 200]


def test_what_stays_down_is_named_after_the_limit_with_its_journal() -> None:
    with answering(503) as (client, given), pytest.raises(UnhealthyError) as caught:
        wait_ready(client, limit_s=0.3)
    down = "decoder-0 is down; decoder-1 is kept out after failed requests"
    assert str(caught.value) == f"h1/proxy: the proxy is not ready: {down}"
    assert "`pdctl logs decoder-0`" in str(caught.value.hint)
    assert len(given) >= 2


def test_a_proxy_that_says_something_else_is_quoted() -> None:
    with (
        answering(502, body="<html>Bad gateway</html>") as (client, _),
        pytest.raises(UnhealthyError) as caught,
    ):
        wait_ready(client, limit_s=0)
    assert "GET /ready answered 502: <html>Bad gateway</html>" in str(caught.value)
    assert "`pdctl logs proxy`" in str(caught.value.hint)
