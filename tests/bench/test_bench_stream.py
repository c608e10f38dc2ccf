import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.bench.answer import Answer, error_text, one_line
from pdctl.bench.sse import Event, EventSplitter
from tests.bench.door import DONE, chunk, usage

STREAM = (
    "data: é1\r\n\r\n: keep-alive\n\nevent: error\r\ndata: two\r\ndata: lines\n\n"
    "data:x\r\rid: 7\n\ndata: [DONE]\n\n"
)
EVENTS = [Event("é1"), Event("two\nlines", "error"), Event("x"), Event("[DONE]")]


def split(*pieces: bytes) -> list[Event]:
    splitter = EventSplitter()
    return [event for piece in pieces for event in splitter.feed(piece)]


@given(st.sets(st.integers(0, len(STREAM.encode())), max_size=12))
def test_events_are_the_same_however_the_network_cuts_them(cuts):
    raw = STREAM.encode()
    edges = [0, *sorted(cuts), len(raw)]
    assert split(*(raw[a:b] for a, b in pairwise(edges))) == EVENTS


def test_events_are_the_same_byte_by_byte():
    assert split(*(bytes([byte]) for byte in STREAM.encode())) == EVENTS


def test_an_event_is_given_with_the_byte_that_completes_it():
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\n") == [] and splitter.feed(b"\ndata: b") == [Event("a")]
    assert splitter.rest() == "data: b"


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader_of_an_answer(noise):
    answer = Answer(0.0)
    answer.feed(noise, 1.0)
    answer.feed(b"\n\ndata: " + noise + b"\n\n", 2.0)
    assert answer.sample(0.0, 8).error


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "usage", "error", "text", "finish_reason", "prompt_tokens", "message"]
                ),
                inner,
            )
        ),
    )
)
def test_no_json_crashes_the_reader_of_an_answer(body):
    answer = Answer(0.0)
    answer.feed(b"data: " + json.dumps(body).encode() + b"\n\n" + DONE, 1.0)
    answer.sample(0.0, None)


def test_what_follows_the_end_changes_nothing():
    answer = Answer(0.0)
    answer.feed(chunk("a", "length") + usage(8, 1) + DONE + b'data: {"error": "late"}\n\n', 1.0)
    assert answer.sample(0.0, 8).error == "" and answer.ended and not answer.failed


def test_deeply_nested_json_is_an_error_and_no_crash():
    answer = Answer(0.0)
    answer.feed(b"data: " + b"[" * 200_000 + b"\n\n", 1.0)
    assert answer.sample(0.0, 8).error.startswith("an event is no completion chunk: [[[")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"error": {"message": "no slot", "code": 503}}', "no slot"),
        ('{"error": "no slot"}', "no slot"),
        ('{"object": "error", "message": "no slot"}', "no slot"),
        ('{"detail": "no slot"}', '{"detail": "no slot"}'),
        ("plain\ntext", "plain text"),
        ("", ""),
    ],
)
def test_the_message_is_found_in_an_error_body(body, text):
    assert error_text(body) == text


@given(st.text(max_size=2000))
def test_an_error_is_one_short_printable_line(text):
    line = one_line(text)
    assert len(line) <= 300 and (line == "" or line.isprintable())
    line.encode()


def test_terminal_escapes_are_taken_out():
    assert one_line("a\x1b[2Jb\u202ec\ud800") == "a [2Jb c"
