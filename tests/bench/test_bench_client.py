import asyncio

import pytest

from pdctl.bench.client import LoadResult, Progress, Target, check_model, open_session, run_load, warm_up
from pdctl.bench.prompts import Vocabulary
from pdctl.bench.stats import RequestSample
from pdctl.errors import BenchError
from tests.bench.door import DONE, HANG, Door, Script, chunk, event, opened, tokens, usage, workload


def load(script, progress=lambda _: None, **changes) -> tuple[LoadResult, Door]:
    """Run a load against a scripted door."""

    async def run() -> tuple[LoadResult, Door]:
        wanted = workload(**changes)
        async with opened(script) as door, open_session(wanted.concurrency) as session:
            result = await run_load(session, door.target, wanted, progress)
            return result, door

    return asyncio.run(run())


def one(*steps, timeout=10.0, **about) -> RequestSample:
    result, _ = load([Script(steps, **about)], request_timeout_s=timeout)
    return result.samples[0]


def test_a_sound_answer_gives_its_gaps_and_the_tokens_of_its_usage():
    sample = one(0.05, chunk(), 0.04, chunk(), 0.04, chunk(), 0.04, chunk("a", "length"), usage(9, 4), DONE)
    assert sample.error == ""
    # lower bounds hold on any machine: the server waits after it was asked
    assert 0.05 <= sample.ttft_s < sample.e2el_s and sample.e2el_s >= 0.05 + 3 * 0.04
    assert len(sample.itls_s) == 3
    assert (sample.input_tokens, sample.reported_input_tokens, sample.output_tokens) == (8, 9, 4)


def test_each_event_counts_when_one_network_chunk_carries_several():
    sample = one(chunk() + chunk() + chunk() + chunk("a", "length") + usage(8, 4) + DONE)
    assert sample.error == "" and sample.chunks == 4
    assert sum(sample.itls_s) < 0.01


def test_an_event_split_over_network_chunks_arrives_once_with_its_last_byte():
    head, tail = chunk("é")[:-9], chunk("é")[-9:]
    sample = one(head, 0.06, tail, chunk("a", "length"), usage(8, 2), DONE)
    assert sample.error == "" and sample.chunks == 2
    assert sample.ttft_s >= 0.06


@pytest.mark.parametrize(
    ("steps", "about", "error"),
    [
        ((b'{"error": {"message": "out of slots"}}',), {"status": 500}, "HTTP 500: out of slots"),
        ((b"<html>Bad\nGateway</html>",), {"status": 502}, "HTTP 502: <html>Bad Gateway</html>"),
        ((b"",), {"status": 307}, "HTTP 307: "),
        ((b'{"error": {"message": "KV lost"}}',), {}, "no event stream but: KV lost"),
        ((b"",), {}, "the answer is empty"),
        ((chunk(), event({"error": {"message": "decoder died"}}), DONE), {}, "error event: decoder died"),
        ((chunk(), b"event: error\ndata: gone\n\n", DONE), {}, "error event: gone"),
        ((chunk(), event({"object": "error", "message": "old form"})), {}, "error event: old form"),
        ((chunk("", "error"), usage(8, 0), DONE), {}, "finish_reason is 'error'"),
        ((chunk(), chunk("", "abort"), usage(8, 1), DONE), {}, "finish_reason is 'abort'"),
        ((chunk(), chunk("a", "length"), usage(8, 2)), {}, "the stream ended without [DONE]"),
        ((chunk(), usage(8, 1), DONE), {}, "the stream ended without a finish_reason"),
        ((chunk("", "stop"), usage(8, 0), DONE), {}, "the answer has no tokens"),
        ((chunk("", "stop"), DONE), {}, "the answer has no tokens"),
        ((DONE,), {}, "the stream ended without a finish_reason"),
        ((chunk(), b"data: {oops\n\n", DONE), {}, "an event is no completion chunk: {oops"),
        ((event([1]), DONE), {}, "an event is no completion chunk: [1]"),
        (
            (event({"choices": [{"text": 3}]}), DONE),
            {},
            'an event is no completion chunk: {"choices": [{"text": 3}]}',
        ),
        ((chunk(), 30.0), {"timeout": 0.3}, "no complete answer within 0.3 s"),
        ((30.0,), {"timeout": 0.3}, "no complete answer within 0.3 s"),
    ],
)
def test_a_request_fails_with_its_reason(steps, about, error):
    sample = one(*steps, **about)
    assert sample.error == error.strip()


def test_a_connection_that_breaks_off_fails_the_request():
    sample = one(chunk(), breaks_off=True)
    assert "payload" in sample.error and sample.ttft_s is not None


def test_a_closed_port_fails_each_request_and_ends_the_load():
    async def run() -> LoadResult:
        async with opened([]) as door:
            target = door.target
        async with open_session(2) as session:
            return await run_load(session, target, workload(num_prompts=5, concurrency=2))

    result = asyncio.run(run())
    assert [bool(sample.error) for sample in result.samples] == [True] * 5
    assert "Connect" in result.samples[0].error


def test_a_server_that_never_stops_one_event_is_cut_off():
    sample = one(b"data: " + b"x" * 600_000, b"x" * 600_000, 30.0)
    assert sample.error == "an event of more than 1048576 bytes"


def test_an_answer_that_is_done_but_never_closed_is_complete():
    result, _ = load([Script((chunk("a", "length"), usage(8, 1), DONE, 30.0))], request_timeout_s=20)
    assert result.samples[0].error == "" and result.samples[0].output_tokens == 1
    assert result.duration_s < 5


def test_an_answer_may_call_its_event_stream_json():
    # LMCache 0.3.10's sample proxy streams events as application/json
    sample = one(chunk("a", "length"), usage(8, 1), DONE, content_type="application/json")
    assert sample.error == ""


@pytest.mark.parametrize(
    ("steps", "chunks", "output"),
    [
        ((chunk(), chunk(), chunk("", "stop"), usage(8, 2), DONE), 2, 2),  # the last one told the reason only
        (
            (chunk(), chunk(), chunk("", "stop"), usage(8, 3), DONE),
            3,
            3,
        ),  # the last one carried the end token
        (
            (chunk(), chunk("", None), chunk("b", "stop"), usage(8, 3), DONE),
            3,
            3,
        ),  # half a character: a token
        ((chunk("abc"), chunk("d", "length"), usage(8, 8), DONE), 2, 8),  # several tokens in a chunk
        ((chunk(), chunk("a", "length"), DONE), 2, 2),  # no usage: chunks are the count
    ],
)
def test_chunks_and_tokens_are_counted_apart(steps, chunks, output):
    sample = one(*steps)
    assert (sample.error, sample.chunks, sample.output_tokens) == ("", chunks, output)
    assert sample.counted_by_chunks == (b"usage" not in b"".join(steps))


def test_the_loop_keeps_every_slot_filled_and_never_more():
    # the end of the answer comes a little after its last event
    sound = tokens(2, gap=0.01)
    result, door = load([Script((*sound.steps, 0.02))], num_prompts=12, concurrency=3)
    assert door.peak == 3 and len(door.bodies) == 12
    assert all(sample.completed for sample in result.samples)
    assert len(door.connections) == 3  # kept alive: no request but the first of a slot pays for a connection


def test_the_request_asks_for_greedy_streamed_tokens_of_fixed_length():
    _, door = load(lambda _: tokens(4), num_prompts=2)
    body = door.bodies[0]
    assert body.pop("prompt") != door.bodies[1]["prompt"]
    assert body == {
        "model": "tiny",
        "max_tokens": 4,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }


def test_words_are_counted_by_the_server():
    result, door = load(lambda _: tokens(4, prompt=21), vocabulary=Vocabulary("words"), ignore_eos=False)
    assert len(door.bodies[0]["prompt"].split()) == 8 and "ignore_eos" not in door.bodies[0]
    assert result.samples[0].input_tokens == 21


def test_text_is_kept_when_asked_for():
    assert load(lambda _: tokens(4), keep_text=True)[0].samples[0].text == "aaaa"
    assert load(lambda _: tokens(4))[0].samples[0].text is None


def test_progress_tells_completed_and_failed():
    seen: list[Progress] = []
    load([tokens(1), Script((), status=500)], seen.append, num_prompts=4)
    assert seen[-1] == Progress(completed=2, failed=2, total=4) and len(seen) == 4


def test_the_time_limit_ends_the_load_and_says_what_was_not_measured():
    result, _ = load([tokens(1), HANG], num_prompts=5, concurrency=2, time_limit_s=0.4)
    assert result.interrupted == "the time limit of 0.4 s was reached"
    assert [sample.completed for sample in result.samples].count(True) >= 1
    assert result.samples[-1].start_s is None and result.samples[-1].error.startswith(
        "not sent: the time limit"
    )
    assert any(sample.error.startswith("cut off: ") for sample in result.samples)
    assert result.duration_s < 2 and len(result.samples) == 5


def test_a_forward_is_used_without_changing_the_host_that_is_named():
    async def run() -> tuple[LoadResult, Door]:
        async with opened(lambda _: tokens(1)) as door, open_session(1) as session:
            target = Target("http://gpu-1.internal:9100", "tiny", {"X-Key": "k"}, ("127.0.0.1", door.port))
            await check_model(session, target)
            return await run_load(session, target, workload()), door

    result, door = asyncio.run(run())
    assert result.samples[0].completed
    assert door.headers[0]["Host"] == "gpu-1.internal:9100" and door.headers[0]["X-Key"] == "k"
    assert door.headers[0]["Accept-Encoding"] == "identity"


def test_headers_stay_out_of_what_is_printed():
    assert "secret" not in repr(Target("http://a", "m", {"Authorization": "Bearer secret"}))


@pytest.mark.parametrize(
    ("models", "error"),
    [
        (b'{"data": [{"id": "oss"}]}', "model 'tiny' is not served; served: oss"),
        (b'{"data": []}', "model 'tiny' is not served; served: none"),
        (b"hello", "/v1/models is no list of models"),
        (b'{"data": 3}', "/v1/models is no list of models"),
    ],
)
def test_a_model_that_is_not_served_gets_no_load(models, error):
    async def run() -> None:
        async with opened([]) as door, open_session(1) as session:
            door.models = models
            await check_model(session, door.target)

    with pytest.raises(BenchError, match=error):
        asyncio.run(run())


def test_a_door_that_is_shut_is_an_error_before_any_load():
    async def run() -> None:
        async with opened([]) as door:
            pass
        async with open_session(1) as session:
            await check_model(session, door.target)

    with pytest.raises(BenchError, match="no answer"):
        asyncio.run(run())


def test_a_failed_warm_up_ends_the_bench_and_warm_up_prompts_are_never_load_prompts():
    async def run(script) -> Door:
        async with opened(script) as door, open_session(2) as session:
            wanted = workload(num_prompts=3, concurrency=2, warmups=3)
            await warm_up(session, door.target, wanted)
            await run_load(session, door.target, wanted)
            return door

    door = asyncio.run(run(lambda _: tokens(1)))
    assert len({tuple(body["prompt"]) for body in door.bodies}) == 6
    with pytest.raises(BenchError, match="a warm-up request failed: HTTP 500"):
        asyncio.run(run([tokens(1), Script((), status=500)]))
