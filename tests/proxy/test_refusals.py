"""Which fields are refused on which decode leg."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.proxy.refusals import ALL, APPEND, NIXL, ORIGINAL, refused_field

from .cluster import cluster

EVERYWHERE: list[dict[str, Any]] = [
    {"n": 2},
    {"n": "2"},
    {"best_of": 3},
    {"use_beam_search": True},
    {"prompt": ["a", "b"]},
    {"prompt": [[1], [2]]},
    {"prompt_embeds": "AAAA"},
    {"prompt_logprobs": 0},
    {"kv_transfer_params": {"do_remote_prefill": True}},
    {"max_tokens": "5"},
    {"max_tokens": 5.0},
    {"max_tokens": True},
    {"max_completion_tokens": "5"},
    {"min_tokens": "5"},
    {"stream": "yes"},
]
ON_APPEND: list[dict[str, Any]] = [
    {"logprobs": 0},
    {"logprobs": True},
    {"echo": True},
    {"truncate_prompt_tokens": 5},
    {"response_format": {"type": "json_object"}},
    {"structured_outputs": {"regex": "a"}},
    {"guided_json": {}},
]
NOWHERE: list[dict[str, Any]] = [
    {},
    {"n": 1, "best_of": 1, "echo": False, "logprobs": None, "stream": None},
    {"n": 0},
    {"prompt": ["a"]},
    {"prompt": [1, 2, 3]},
    {"prompt": [[1, 2]]},
    {"response_format": {"type": "text"}},
    {"max_tokens": None},
    {"max_tokens": -1},
]


@pytest.mark.parametrize("leg", ALL)
@pytest.mark.parametrize("body", EVERYWHERE)
def test_refused_on_every_leg(body: dict[str, Any], leg: str) -> None:
    found = refused_field(body, leg)
    assert found is not None
    assert found[0] == next(iter(body))


@pytest.mark.parametrize("body", ON_APPEND)
def test_refused_only_where_the_first_token_is_made_apart(body: dict[str, Any]) -> None:
    found = refused_field(body, APPEND)
    assert found is not None
    assert found[0] == next(iter(body))
    assert refused_field(body, ORIGINAL) is None
    assert refused_field(body, NIXL) is None


@pytest.mark.parametrize("leg", ALL)
@pytest.mark.parametrize("body", NOWHERE)
def test_served_on_every_leg(body: dict[str, Any], leg: str) -> None:
    assert refused_field(body, leg) is None


def test_logprobs_of_an_echoed_prompt_are_refused() -> None:
    assert refused_field({"echo": True, "logprobs": 1}, NIXL) is not None


async def test_a_refusal_is_a_400_that_names_the_field_and_touches_no_engine() -> None:
    async with cluster() as c:
        reply = await c.complete(n=2, max_tokens=4)
        assert [engine.received for engine in c.engines] == [[], []]
    error = reply.json["error"]
    assert (reply.status, error["param"], error["type"]) == (400, "n", "invalid_request_error")
    assert "`n`" in error["message"]
