"""The script of `pdctl render` for vLLM's own benchmark: it runs here, with a program in vLLM's place."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pdctl.bench.script import bench_script
from pdctl.topology import Topology, resolve
from tests.examples import topology
from tests.topology import specs

PLAYED = f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n"


@contextmanager
def door(models: Any, status: int = 200) -> Iterator[str]:
    """A proxy that only names its models."""

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/v1/models" else 404)
            self.end_headers()
            self.wfile.write(models if isinstance(models, bytes) else json.dumps(models).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def served(*names: str) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name} for name in names]}


def run(
    cluster: Topology, url: str, folder: Path, *words: str, **env: str
) -> subprocess.CompletedProcess[str]:
    text = bench_script(cluster)
    assert text is not None
    script, vllm = folder / "bench.sh", folder / "vllm"
    script.write_bytes(text)
    vllm.write_text(PLAYED)
    vllm.chmod(stat.S_IRWXU)
    return subprocess.run(
        ["sh", script, *words],
        env={
            "PATH": os.environ["PATH"],
            "BASE_URL": url,
            "VLLM": str(vllm),
            "http_proxy": "http://127.0.0.1:9",
        }
        | env,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def options(words: list[str]) -> dict[str, str]:
    """Each option with the word after it; the last one wins, as with argparse."""
    return {word: after for word, after in zip(words, [*words[1:], ""], strict=True) if word.startswith("--")}


OSS = {"id": "openai/gpt-oss-120b", "path": "/models/gpt-oss-120b", "served_name": "oss"}


def test_the_command_names_what_the_proxy_serves_and_where_the_tokenizer_is(tmp_path: Path) -> None:
    cluster = resolve(specs.cluster(model=OSS))
    with door(served("oss")) as url:
        done = run(cluster, url, tmp_path, "--request-rate", "4")
    assert done.returncode == 0, done.stderr
    words = json.loads(done.stdout)
    found = options(words)
    assert words[:2] == ["bench", "serve"] and words[-2:] == ["--request-rate", "4"]
    assert (found["--model"], found["--tokenizer"]) == ("oss", "/models/gpt-oss-120b")
    assert (found["--backend"], found["--endpoint"]) == ("openai", "/v1/completions")
    assert found["--base-url"] == url


def test_without_other_words_it_asks_the_proxy_of_the_spec_with_the_hosts_vllm() -> None:
    text = (bench_script(topology("hgx-h100-article")) or b"").decode()
    assert "base_url=${BASE_URL:-http://10.0.0.11:9100}\n" in text
    assert "exec /opt/pdctl/venvs/engine-cuda-" in text


@pytest.mark.parametrize(
    ("models", "status", "said"),
    [
        (served("openai/gpt-oss-120b"), 200, "serves openai/gpt-oss-120b, not oss: nothing was sent"),
        (served("oss", "other"), 200, "serves oss, other, not oss"),
        (served(), 200, "serves nothing, not oss"),
        (b"<html>", 200, "/v1/models: Expecting value"),
        ({"data": [1]}, 200, "/v1/models: "),
        (served("oss"), 503, "/v1/models: HTTP Error 503"),
    ],
)
def test_nothing_is_sent_where_the_names_differ(tmp_path: Path, models: Any, status: int, said: str) -> None:
    with door(models, status) as url:
        done = run(resolve(specs.cluster(model=OSS)), url, tmp_path)
    assert done.returncode == 1 and done.stdout == "" and said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_proxy_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with door(served("oss")) as url:
        pass
    done = run(resolve(specs.cluster(model=OSS)), url, tmp_path)
    assert done.returncode == 1 and f"{url}/v1/models: " in done.stderr and "pdctl status" in done.stderr


@pytest.mark.parametrize("text", ["a'b", "$(touch${IFS}x)", "`id`", 'q"q', "{{7*7}}", "%n", "é*?"])
def test_names_and_folders_arrive_as_they_are_written(tmp_path: Path, text: str) -> None:
    model = {"id": "openai/gpt-oss-120b", "path": f"/models/a b/{text}", "served_name": text}
    with door(served(text)) as url:
        done = run(resolve(specs.cluster(model=model)), url, tmp_path, LC_ALL="C.UTF-8")
    assert done.returncode == 0, done.stderr
    found = options(json.loads(done.stdout))
    assert (found["--model"], found["--tokenizer"]) == (text, f"/models/a b/{text}")


def test_the_load_is_that_of_the_quick_bench_with_the_spec_s_own_numbers(tmp_path: Path) -> None:
    cluster = resolve(specs.cluster(model=OSS, bench={"input_len": 512, "num_prompts": 10, "seed": 7}))
    with door(served("oss")) as url:
        found = options(json.loads(run(cluster, url, tmp_path).stdout))
    assert (found["--random-input-len"], found["--random-output-len"]) == ("512", "256")
    assert (found["--num-prompts"], found["--max-concurrency"], found["--seed"]) == ("10", "8", "7")


def test_a_host_without_internet_loads_no_tokenizer_from_there() -> None:
    text = bench_script(resolve(specs.cluster(model=OSS | {"vocabulary": "v"}, offline=True))) or b""
    assert b"\nexport HF_HUB_OFFLINE=1\n" in text and b"HF_HOME" not in text
    by_name = resolve(specs.cluster(model={"id": "Qwen/Qwen3-8B", "max_model_len": 4096}, offline=True))
    assert b"HF_HOME:-/opt/pdctl/models/huggingface}" in (bench_script(by_name) or b"")
    assert b"HF_HUB_OFFLINE" not in (bench_script(resolve(specs.cluster(model=OSS))) or b"")


def test_the_simulator_has_no_such_script() -> None:
    assert bench_script(topology("lab-simulator")) is None
