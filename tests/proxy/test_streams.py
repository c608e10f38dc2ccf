"""Server-sent events and merged answers, as pure functions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.proxy import merging, sse

STREAM = b'data: {"choices":[{"text":"a\\u00e9"}]}\n\n: ping\r\n\r\ndata: {"x":1}\r\n\r\ndata: [DONE]\n\n'


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_are_the_same_wherever_the_network_cuts(cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), len(STREAM)]
    splitter = sse.Splitter()
    events = [item for a, b in pairwise(bounds) for item in splitter.feed(STREAM[a:b])]
    assert b"".join(events) == STREAM
    assert [sse.data(item) for item in events][1:] == [b"", b'{"x":1}', b"[DONE]"]
    assert sse.is_done(events[-1])


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (b'data: {"error": {"message": "x"}}\n\n', True),
        (b'data: {"object": "error", "message": "x"}\n\n', True),
        (b'data: {"choices": [{"finish_reason": "error"}]}\n\n', True),
        (b'data: {"choices": [{"text": "an error", "finish_reason": null}]}\n\n', False),
        (b'data: {"choices": [], "error": null}\n\n', False),
        (b'data: {"error": \n\n', False),
        (b": error\n\n", False),
        (b"data: [DONE]\n\n", False),
        (b'data: ["error"]\n\n', False),
        (b'data: {"choices": "error"}\n\n', False),
    ],
)
def test_an_error_is_told_from_text_about_one(event: bytes, expected: bool) -> None:
    assert sse.reports_error(event) is expected


@pytest.mark.parametrize("text", [b"", b"[1]", b"nonsense", b"[" * 100000, b"\xff", b"1" * 5000])
def test_what_is_no_object_is_an_empty_one(text: bytes) -> None:
    assert sse.parsed(text) == {}


def chunk(text: str, end: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": end, **more}
    return {"id": "x", "object": "text_completion", "choices": [choice], "usage": None}


def test_chunks_merge_into_the_answer_that_was_not_streamed() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    chunks = [
        chunk("a", token_ids=[5], prompt_token_ids=[1, 2, 3]),
        chunk("b", "stop", stop_reason=9, token_ids=[6]),
        {"id": "x", "object": "text_completion", "choices": [], "usage": usage},
    ]
    assert merging.merged(chunks) == {
        "id": "x",
        "object": "text_completion",
        "choices": [
            {
                "index": 0,
                "text": "ab",
                "logprobs": None,
                "finish_reason": "stop",
                "stop_reason": 9,
                "token_ids": [5, 6],
                "prompt_token_ids": [1, 2, 3],
            }
        ],
        "usage": usage,
    }


def test_usage_is_counted_from_the_client_s_prompt() -> None:
    usage = {"prompt_tokens": 4, "completion_tokens": 7, "total_tokens": 11, "prompt_tokens_details": None}
    fixed = {**usage, "prompt_tokens": 3, "completion_tokens": 8}
    assert merging.counted_from_prompt(usage) == fixed
    assert sse.document(merging.usage_event(sse.encode({"usage": usage})))["usage"] == fixed
    for event in (sse.encode({"usage": None}), sse.encode({"choices": []}), sse.DONE):
        assert merging.usage_event(event) == event
