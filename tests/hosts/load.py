"""Light, continuous load through the proxy, from within a lab host: every answer is looked at to its end."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pdctl.lab import Lab

# Runs on the host with its own Python until its standard input ends, then prints what came of each request.
PROGRAM = """
import http.client, json, sys, threading, time
url, workers, pause, tokens, most = sys.argv[1], *map(float, sys.argv[2:])
over, rows = threading.Event(), []
def ask(number, turn):
    streams = turn % 2 == 0
    prompt = [number + 1, turn % 900 + 1, *range(1, 40)]
    body = {"model": "tiny", "prompt": prompt, "max_tokens": int(tokens), "stream": streams}
    connection = http.client.HTTPConnection(url, timeout=120)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    whole = text.rstrip().endswith("data: [DONE]") if streams else '"usage"' in text
    pair = [answer.headers.get("x-pdctl-" + role, "") for role in ("prefiller", "decoder")]
    connection.close()
    fine = answer.status == 200 and whole and '"error"' not in text
    return {"status": answer.status, "fine": fine, "pair": pair, "text": "" if fine else text[:300]}
def work(number):
    turn = 0
    while not over.is_set() and turn < most:
        turn, begun = turn + 1, time.time()
        try:
            row = ask(number, turn)
        except (OSError, http.client.HTTPException) as error:
            row = {"status": 0, "fine": False, "pair": ["", ""], "text": repr(error)}
        rows.append({**row, "at": begun, "s": time.time() - begun})
        time.sleep(pause)
threads = [threading.Thread(target=work, args=(number,)) for number in range(int(workers))]
for thread in threads: thread.start()
print("up", flush=True)
sys.stdin.read()
over.set()
for thread in threads: thread.join()
print(json.dumps(rows))
"""


@dataclass
class Load:
    """Its rows are there when the load is over."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def failed(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if not row["fine"]]

    @property
    def pairs(self) -> set[tuple[str, str]]:
        return {(row["pair"][0], row["pair"][1]) for row in self.rows}

    def summary(self) -> str:
        slowest = max(row["s"] for row in self.rows)
        words = f"{len(self.rows)} requests, {len(self.failed)} failed, slowest {slowest:.2f} s"
        return f"{words}, pairs {sorted(self.pairs)}"


@contextmanager
def load(
    lab: Lab,
    host: str,
    front: str,
    *,
    workers: int = 3,
    pause_s: float = 0.02,
    tokens: int = 8,
    most: int = 1_000_000,
) -> Iterator[Load]:
    """`front` is HOST:PORT of the proxy as `host` reaches it; `most` requests from each worker."""
    found = Load()
    numbers = [str(number) for number in (workers, pause_s, tokens, most)]
    command = lab.enter_argv(host, ["python3", "-c", PROGRAM, front, *numbers])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None and running.stdout is not None
        assert running.stdout.readline() == "up\n"
        try:
            yield found
        finally:
            running.stdin.close()
            text = running.stdout.read()
    found.rows = json.loads(text)
