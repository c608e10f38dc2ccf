"""What each leg is sent, as a table of bodies."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pdctl.proxy import bodies
from pdctl.proxy.config import Decoder

Body = dict[str, Any]
CLIENT: Body = {
    "model": "m",
    "prompt": "a",
    "max_tokens": 256,
    "stream": True,
    "stream_options": {"include_usage": True},
    "logprobs": 2,
    "echo": True,
    "temperature": 0,
}


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        ({}, {"max_tokens": 1}),
        ({"max_tokens": 256}, {"max_tokens": 1}),
        ({"max_tokens": None}, {"max_tokens": 1}),
        ({"max_completion_tokens": 256}, {"max_tokens": 1, "max_completion_tokens": 1}),
        ({"max_completion_tokens": None}, {"max_tokens": 1, "max_completion_tokens": 1}),
        ({"max_tokens": 9, "max_completion_tokens": 5}, {"max_tokens": 1, "max_completion_tokens": 1}),
        ({"max_tokens": 0}, {"max_tokens": 0}),
        ({"max_tokens": 9, "max_completion_tokens": -1}, {"max_tokens": 9, "max_completion_tokens": -1}),
        ({"max_tokens": 9, "min_tokens": 5}, {"max_tokens": 1, "min_tokens": 1}),
        ({"max_tokens": 9, "min_tokens": 0}, {"max_tokens": 1, "min_tokens": 0}),
    ],
)
def test_a_prefill_is_limited_to_one_token_through_every_alias(limits: Body, sent: Body) -> None:
    body = bodies.prefill_body({"prompt": "a", **limits}, {"x": 1})
    assert body == {"prompt": "a", "stream": False, "kv_transfer_params": {"x": 1}, **sent}


def test_a_prefill_carries_nothing_that_only_an_answer_needs() -> None:
    before = copy.deepcopy(CLIENT)
    body = bodies.prefill_body(CLIENT, bodies.nixl_params())
    assert body.keys() == {"model", "prompt", "max_tokens", "stream", "temperature", "kv_transfer_params"}
    assert before == CLIENT


def test_lmcache_params_name_one_port_per_rank() -> None:
    decoder = Decoder("d", "http://x:1", "10.0.0.12", (7300, 7301), (7400, 7401), 8)
    assert bodies.lmcache_params("id", decoder) == {
        "ret_first_tok": True,
        "disagg_spec": {
            "req_id": "id",
            "receiver_host": "10.0.0.12",
            "receiver_init_port": [7300, 7301],
            "receiver_alloc_port": [7400, 7401],
        },
    }


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, {}),
        ({"max_tokens": None}, {"max_tokens": None}),
        ({"max_tokens": 8, "min_tokens": 3}, {"max_tokens": 7, "min_tokens": 2}),
        ({"max_tokens": 8, "min_tokens": 0}, {"max_tokens": 7, "min_tokens": 0}),
        ({"max_completion_tokens": 8, "max_tokens": 1}, {"max_completion_tokens": 7, "max_tokens": 1}),
        ({"max_tokens": -1}, {"max_tokens": -1}),
    ],
)
def test_an_appended_decode_has_one_token_less_to_do(fields: Body, sent: Body) -> None:
    assert bodies.appended_body({"prompt": "a", **fields}, [1, 2], 9) == {"prompt": [1, 2, 9], **sent}


def test_a_drain_asks_for_one_token_and_nothing_else() -> None:
    body = bodies.drain_body({**CLIENT, "min_tokens": 5, "max_completion_tokens": 9})
    assert body == {"model": "m", "prompt": "a", "max_tokens": 1, "stream": False, "temperature": 0}


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, None),
        ({"max_tokens": None}, None),
        ({"max_tokens": 1}, 1),
        ({"max_tokens": 9, "max_completion_tokens": 1}, 1),
        ({"max_tokens": 9, "max_completion_tokens": None}, 9),
    ],
)
def test_the_limit_is_the_newer_name_s_where_both_are_given(fields: Body, limit: int | None) -> None:
    assert bodies.token_limit(fields) == limit


@pytest.mark.parametrize(
    ("prompt", "single", "ids"),
    [
        ("a", "a", None),
        (["a"], "a", None),
        ([1, 2], [1, 2], [1, 2]),
        ([[1, 2]], [1, 2], [1, 2]),
        ([7], [7], [7]),
        ([], [], []),
        ([True], [True], None),
        ([-1], [-1], None),
        ({"a": 1}, {"a": 1}, None),
    ],
)
def test_a_list_of_one_prompt_is_that_prompt(prompt: Any, single: Any, ids: Any) -> None:
    assert bodies.single_prompt(prompt) == single
    assert bodies.token_ids(single) == ids


def test_only_what_tokenizing_needs_is_sent_there() -> None:
    body = {**CLIENT, "add_special_tokens": False}
    assert bodies.tokenize_body(body) == {"model": "m", "prompt": "a", "add_special_tokens": False}
