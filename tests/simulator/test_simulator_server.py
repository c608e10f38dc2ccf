"""One simulated engine by itself: endpoints, refusals, batching, faults, start and stop."""

from __future__ import annotations

import ast
import http.client
import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pdctl.simulator
from tests.simulator.simulated import Farm, Instance, Json, until

SOURCE = Path(pdctl.simulator.__file__).parent
COMPLETIONS = "/v1/completions"


def events(stream: str) -> list[Json]:
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_everything_about_it_says_that_it_is_simulated(aggregated: Instance) -> None:
    assert "SIMULATED" in aggregated.log.read_text().splitlines()[0]
    _, version = aggregated.call("GET", "/version")
    assert version["simulated"] is True
    assert version["version"] == "0.32.0+simulated"
    assert aggregated.complete("x")["system_fingerprint"] == "simulated"
    assert aggregated.call("GET", "/v1/models")[1]["data"][0]["owned_by"].startswith("pdctl-simulator")


def test_streams_carry_the_same_text_with_usage_in_a_chunk_of_its_own(aggregated: Instance) -> None:
    ask = {"prompt": "a stream", "max_tokens": 9, "ignore_eos": True, "stream": True}
    _, stream = aggregated.call("POST", COMPLETIONS, {**ask, "stream_options": {"include_usage": True}})
    *parts, usage = events(stream)
    assert len(parts) == 9
    assert "".join(part["choices"][0]["text"] for part in parts) == aggregated.text("a stream", 9)
    assert parts[-1]["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 4, "completion_tokens": 9, "total_tokens": 13}


def test_chat_streams_a_role_and_then_the_text_that_it_answers_whole(aggregated: Instance) -> None:
    ask = {"messages": [{"role": "user", "content": "hello"}], "max_completion_tokens": 6, "ignore_eos": True}
    _, whole = aggregated.call("POST", "/v1/chat/completions", ask)
    _, stream = aggregated.call("POST", "/v1/chat/completions", {**ask, "stream": True})
    deltas = [part["choices"][0]["delta"] for part in events(stream)]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta["content"] for delta in deltas) == whole["choices"][0]["message"]["content"]
    tokens = aggregated.call("POST", "/tokenize", {"messages": ask["messages"]})[1]
    assert tokens["count"] == whole["usage"]["prompt_tokens"]


def test_text_and_its_tokens_are_the_same_prompt(aggregated: Instance) -> None:
    text = "naïve text, odd length"
    tokens = aggregated.call("POST", "/tokenize", {"prompt": text})[1]["tokens"]
    assert aggregated.call("POST", "/detokenize", {"tokens": tokens})[1] == {"prompt": text}
    assert aggregated.text(text) == aggregated.text(tokens) == aggregated.text([tokens])
    assert aggregated.text(text) != aggregated.text(text + "!")


def test_a_text_can_be_continued_from_its_own_output(aggregated: Instance) -> None:
    whole = aggregated.text("even", 12)
    assert whole == aggregated.text("even", 5) + aggregated.text("even" + aggregated.text("even", 5), 7)


def test_stop_strings_end_the_text_before_them_and_never_show(aggregated: Instance) -> None:
    whole = aggregated.text("stop here", 30)
    stop = whole[21:26]
    answer = aggregated.complete("stop here", 30, stop=[stop, "never"])["choices"][0]
    assert answer["text"] == whole[: whole.index(stop)]
    assert (answer["finish_reason"], answer["stop_reason"]) == ("stop", stop)
    ask = {"prompt": "stop here", "max_tokens": 30, "ignore_eos": True, "stop": stop, "stream": True}
    parts = events(aggregated.call("POST", COMPLETIONS, ask)[1])
    assert "".join(part["choices"][0]["text"] for part in parts) == answer["text"]


def test_texts_end_by_themselves_unless_told_not_to(aggregated: Instance) -> None:
    answers = [aggregated.complete(str(n), 60, ignore_eos=False)["choices"][0] for n in range(4)]
    ended = next(n for n, answer in enumerate(answers) if answer["finish_reason"] == "stop")
    whole = aggregated.complete(str(ended), 60)
    assert whole["usage"]["completion_tokens"] == 60
    assert str(whole["choices"][0]["text"]).startswith(answers[ended]["text"])
    assert len(whole["choices"][0]["text"]) > len(answers[ended]["text"])


REFUSALS = [
    ({"prompt": "x" * 900, "max_tokens": 100}, 400, "maximum context length is 512"),
    ({"prompt": "x" * 1100}, 400, "maximum context length is 512"),
    ({"prompt": "x", "max_tokens": 0}, 400, "max_tokens must be at least 1"),
    ({"prompt": "x", "max_tokens": 1, "min_tokens": 2}, 400, "min_tokens"),
    ({"prompt": "x", "stream_options": {"include_usage": True}}, 400, "Stream options"),
    ({"prompt": "x", "model": "large"}, 404, "`large` does not exist"),
    ({"prompt": "x", "n": 2}, 400, "n > 1"),
    ({"prompt": ["x", "y"]}, 400, "one prompt"),
    ({"prompt": [5, 10**9]}, 400, "out of vocabulary"),
    ({"prompt": ""}, 400, "must not be empty"),
    ({"prompt": "x", "max_tokens": "many"}, 400, "whole number"),
    ({"prompt": "x", "temperature": -1}, 400, "temperature"),
    ({}, 400, "`prompt`"),
    ([], 400, "JSON object"),
]


@pytest.mark.parametrize(("body", "status", "message"), REFUSALS)
def test_what_vllm_refuses_is_refused_in_its_shape(
    aggregated: Instance, body: object, status: int, message: str
) -> None:
    seen, answer = aggregated.call("POST", COMPLETIONS, body)
    assert seen == status == answer["error"]["code"]
    assert message in answer["error"]["message"]
    assert answer["error"]["type"] == ("NotFoundError" if status == 404 else "BadRequestError")


def test_requests_beyond_max_num_seqs_wait_and_gone_clients_leave(farm: Farm) -> None:
    engine = farm.spawn("--max-num-seqs", "1", "--max-num-batched-tokens", "64", itl_ms=20)
    farm.up(engine)
    with ThreadPoolExecutor(3) as pool:
        began = time.monotonic()
        list(pool.map(lambda n: engine.text(str(n), 10), range(3)))
    assert time.monotonic() - began >= 3 * 10 * 0.02
    assert engine.metric("vllm:request_queue_time_seconds_sum") > 0.4
    with pytest.raises(TimeoutError):
        connection_that_gives_up(engine)
    assert engine.text("next", 2)
    assert engine.metric('vllm:request_success_total{finished_reason="abort"}') == 1


def connection_that_gives_up(engine: Instance) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=0.1)
    try:
        body = json.dumps({"prompt": "x", "max_tokens": 500, "ignore_eos": True})
        connection.request("POST", COMPLETIONS, body)
        connection.getresponse()
    finally:
        connection.close()


def test_a_prefill_holds_up_the_tokens_of_others(farm: Farm) -> None:
    engine = farm.spawn("--no-enable-prefix-caching", prefill_tokens_per_s=2000, itl_ms=2)
    farm.up(engine)
    with ThreadPoolExecutor(1) as pool:
        stream = pool.submit(engine.text, "streaming", 300)
        until(lambda: engine.metric("vllm:generation_tokens_total") > 3)
        engine.text("x" * 800, 1)  # 400 tokens: for 0.2 s nobody else gets a token
        stream.result()
    gaps = "vllm:inter_token_latency_seconds"
    assert engine.metric(f"{gaps}_count") - engine.metric(f'{gaps}_bucket{{le="0.15"}}') >= 1


def test_each_fault_does_what_it_says(farm: Farm) -> None:
    engine = farm.spawn(faults={"fail_prefill": 1})
    farm.up(engine)
    assert engine.call("POST", COMPLETIONS, {"prompt": "x"})[0] == 500
    assert engine.call("POST", COMPLETIONS, {"prompt": "x"})[0] == 200
    engine.fault(unhealthy=True)
    assert engine.call("GET", "/health")[0] == 503
    engine.fault(unhealthy=False, slow=50)
    began = time.monotonic()
    engine.text("slowly", 5)
    assert time.monotonic() - began > 0.2
    engine.fault(slow=1, hang=True)
    with ThreadPoolExecutor(1) as pool:
        stuck = pool.submit(engine.text, "hanging", 5)
        with pytest.raises(TimeoutError):
            stuck.result(timeout=0.2)
        assert engine.call("GET", "/health")[0] == 200
        engine.fault(hang=False)
        assert stuck.result(timeout=2)
    assert engine.call("POST", "/pdctl/faults", {"explode": True})[0] == 400
    assert engine.call("POST", "/pdctl/faults", {"slow": 0})[0] == 400
    engine.fault(die=True)
    assert engine.ended() == 1


def test_it_costs_little_and_stops_at_once(farm: Farm) -> None:
    engine = farm.spawn()
    farm.up(engine)
    engine.text("warm", 5)
    stat = Path(f"/proc/{engine.process.pid}/stat")
    used = sum(map(int, stat.read_text().rsplit(")", 1)[1].split()[11:13]))
    with pytest.raises(subprocess.TimeoutExpired):
        engine.process.wait(timeout=0.5)
    assert (
        sum(map(int, stat.read_text().rsplit(")", 1)[1].split()[11:13])) - used <= 10
    )  # ticks of 10 ms: it sleeps, it does not poll
    assert engine.metric("process_resident_memory_bytes") < 60e6
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            engine.call, "POST", COMPLETIONS, {"prompt": "x", "max_tokens": 500, "stream": True}
        )
        began = time.monotonic()
        assert engine.stop() == 0
        assert time.monotonic() - began < 10  # at once, not when its requests end
        running.exception(timeout=2)


def test_a_port_in_use_is_named(farm: Farm, aggregated: Instance) -> None:
    engine = farm.spawn("--port", str(aggregated.port))
    assert engine.ended() == 1
    assert f"cannot bind 127.0.0.1:{aggregated.port}: " in engine.log.read_text()


def test_the_api_key_guards_v1_and_a_start_takes_its_time(farm: Farm) -> None:
    engine = farm.spawn("--api-key", "secret", start_s=0.3)
    began = time.monotonic()
    farm.up(engine)
    assert time.monotonic() - began > 0.3
    assert engine.call("POST", COMPLETIONS, {"prompt": "x"})[0] == 401
    assert engine.call("POST", COMPLETIONS, {"prompt": "x"}, Authorization="Bearer secret")[0] == 200


def test_it_runs_as_the_package_that_hosts_get_and_without_pdctl(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "pdctl_simulator")
    show = "import sys; sys.path.insert(0, '.'); import pdctl_simulator.server; print('pdctl' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-I", "-c", show], cwd=tmp_path, text=True) == "False\n"
    argv = [sys.executable, "-m", "pdctl_simulator", "serve", "tiny", "--not-a-flag"]
    run = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "unrecognized arguments: --not-a-flag" in run.stderr


@pytest.mark.parametrize("source", sorted(SOURCE.glob("*.py")), ids=lambda path: path.stem)
def test_it_is_written_for_python_3_10(source: Path) -> None:
    ast.parse(source.read_text(), feature_version=(3, 10))
