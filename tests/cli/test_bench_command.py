"""`pdctl bench` against a scripted front door on loopback, reached with `connection: local`."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.bench.door import MODEL, Script, opened, tokens
from tests.cli.program import pdctl

LENGTH = 4
REFUSED = Script((b'{"error": {"message": "no room"}}',), status=500, content_type="application/json")


@contextmanager
def door(script: list[Script]) -> Iterator[int]:
    """The port of a front door that answers by `script` until the block ends."""
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    ready: list[int] = []
    up = threading.Event()

    async def serve() -> None:
        async with opened(script) as opened_door:
            ready.append(opened_door.port)
            up.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert up.wait(30)
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def write_spec(folder: Path, port: int, slo: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = free.getsockname()[1]
    (folder / "cluster.yaml").write_text(
        f"""\
cluster: chat
hosts: [{{name: here, address: 127.0.0.1}}]
ssh: {{connection: local}}
engine: simulator
model: {{id: pdctl/tiny, served_name: {MODEL}}}
serving:
  mode: aggregated
  instances: {{placement: [{{host: here, ports: {{http: {nobody}}}}}]}}
  proxy: {{ports: {{http: {port}}}}}
slo: {slo}
suppress: [{{rule: PORT005, reason: the kernel gave these ports to this test}}]
bench: {{num_prompts: 4, concurrency: 2, input_len: 8, output_len: {LENGTH}, seed: 1}}
"""
    )


def test_a_missed_slo_ends_with_3_and_a_met_one_with_0(tmp_path: Path) -> None:
    with door([tokens(LENGTH)]) as port:
        write_spec(tmp_path, port, "{ttft_ms: 60000}")
        met = pdctl(tmp_path, "bench", "--quick")
        write_spec(tmp_path, port, "{ttft_ms: 0.001}")
        missed = pdctl(tmp_path, "bench", "--quick", "--json")
    assert met.returncode == 0, met.stderr
    assert "4 of 4" in met.stdout and "result: results/" in met.stdout
    assert missed.returncode == 3, missed.stderr
    record = json.loads(missed.stdout)
    assert (record["completed"], record["pdctl"]["slo"]["met"]) == (4, False)


def test_failed_requests_end_with_1_unless_they_are_tolerated(tmp_path: Path) -> None:
    # The simulator's preset sends 4 requests ahead, to warm up.
    script = [tokens(LENGTH)] * 4 + [REFUSED, *[tokens(LENGTH)] * 3]
    with door(script) as port:
        write_spec(tmp_path, port, "{ttft_ms: 60000, attainment: 0.5}")
        done = pdctl(tmp_path, "bench", "--quick")
        tolerated = pdctl(tmp_path, "bench", "--quick", "--tolerate", "1", "--seed", "2")
    assert done.returncode == 1
    assert "completed 3 of 4 requests (0 failures tolerated)" in done.stderr and "no room" in done.stderr
    assert (tolerated.returncode, tolerated.stderr) == (0, "")


def test_a_load_must_be_named(tmp_path: Path) -> None:
    write_spec(tmp_path, 1029, "{ttft_ms: 1}")
    done = pdctl(tmp_path, "bench")
    assert done.returncode == 1 and "hint: run `pdctl bench --quick`" in done.stderr


FOREIGN = {"num_prompts": 500, "completed": 497, "median_ttft_ms": 41.25, "p99_itl_ms": 9, "mean_e2el_ms": 7}


@pytest.mark.parametrize(("tolerate", "code"), [("0", 1), ("2", 1), ("3", 0)])
def test_a_result_file_of_vllm_is_judged_by_its_counts(tmp_path: Path, tolerate: str, code: int) -> None:
    (tmp_path / "r.json").write_text(json.dumps(FOREIGN))
    done = pdctl(tmp_path, "bench", "--judge", "r.json", "--tolerate", tolerate)
    assert done.returncode == code
    assert done.stdout.splitlines() == [
        "r.json: completed 497 of 500 requests, 3 failed",
        "  median_ttft_ms  41.2",
        "  p99_itl_ms      9.0",
    ]
    said = f"error: r.json: completed 497 of 500 requests ({tolerate} failures tolerated)\n"
    assert done.stderr == (said if code else "")


def test_the_judgement_is_a_document_too(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(FOREIGN | {"completed": 500}))
    done = pdctl(tmp_path, "bench", "--judge", "r.json", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "format": "pdctl-judgement/1",
        "file": "r.json",
        "num_prompts": 500,
        "completed": 500,
        "failed": 0,
        "median_ttft_ms": 41.25,
        "p99_itl_ms": 9.0,
    }


def test_a_file_that_cannot_be_believed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"num_prompts": 2')
    done = pdctl(tmp_path, "bench", "--judge", "r.json")
    assert done.returncode == 1 and "r.json: the result file is no valid JSON" in done.stderr
