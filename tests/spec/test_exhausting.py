"""Files made to exhaust the reader end soon and within bounds, whatever they are full of."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from pdctl.spec.source import MAX_BYTES

ROOT = Path(__file__).parents[2]
SIZE = MAX_BYTES - 8
SECONDS, BYTES = 60, 1 << 30  # of CPU and of address space; the worst takes 5 s and 190 MiB of memory
HEAD = "cluster: a\nmodel: {id: openai/gpt-oss-120b}\n"
LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefghij", "bcdefghijk", strict=True)
)
# Full of one thing, as large as is read at all.
FULL = {
    "open lists": "[" * SIZE,
    "open mappings": "{" * SIZE,
    "list indicators": "- " * (SIZE // 2),
    "key indicators": "? " * (SIZE // 2),
    "colons": ":" * SIZE,
    "digits": "a: " + "1" * (SIZE - 4),
    "tags": "!a " * (SIZE // 3),
    "aliases": "*a " * (SIZE // 3),
    "anchors": "".join(f"a{i}: &x{i} 1\n" for i in range(SIZE // 18)),
    "one word": "a" * SIZE,
    "quotes": '"' + "a" * (SIZE - 4) + '"',
    "escapes": '"' + "\\x41" * (SIZE // 4 - 2) + '"',
    "comments": "#\n" * (SIZE // 2),
    "newlines": "\n" * SIZE,
    "keys": "".join(f"k{i}: 1\n" for i in range(SIZE // 12)),
    "the same key": "k: 1\n" * (SIZE // 5),
    "entries": "a: [" + "1," * (SIZE // 2 - 8) + "]",
    "a block": "a: |\n" + " x\n" * (SIZE // 3 - 4),
    "beginnings of tokens": "hf_" * (SIZE // 3),
    "hosts": f"{HEAD}hosts:\n" + "".join(f"- {{name: h{i}}}\n" for i in range(SIZE // 18)),
}
# Small files that stand for much.
DENSE = {
    "laughs": LAUGHS,
    "deep through aliases": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} [[[[*a{i - 1}]]]]\n" for i in range(1, 2000)),
    "merged laughs": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 2000)),
    "wide merges": "a: &a {"
    + ",".join(f"k{i}: 1" for i in range(3000))
    + "}\n"
    + "".join(f"b{i}: {{<<: *a}}\n" for i in range(2000)),
    "instances": f"{HEAD}engine: simulator\nhosts: [{{name: h}}]\nserving:\n"
    "  prefillers: {count: 4096, tensor_parallel: 64}\n  decoders: {count: 4096, tensor_parallel: 64}\n",
    "places": f"{HEAD}hosts: [{{name: h, gpus: 64}}]\nserving:\n  decoders: {{count: 1}}\n"
    f"  prefillers: {{placement: [{','.join(['h'] * 4096)}]}}\n",
    "keys of a flag": f"{HEAD}hosts: [{{name: h, gpus: 8}}]\n"
    f"serving: {{prefillers: {{}}, decoders: {{extra_args: [--a{'.b' * 16000}=1]}}}}\n",
    "brackets in a flag": f"{HEAD}hosts: [{{name: h, gpus: 8}}]\n"
    f"serving: {{prefillers: {{}}, decoders: {{extra_args: [--a, '{'[' * 15000}{']' * 15000}']}}}}\n",
}
FILES = DENSE | FULL
if not os.environ.get("PDCTL_SOAK"):
    FILES = {**DENSE, "open lists": FULL["open lists"], "aliases": FULL["aliases"]}
    del FILES["instances"]
PROGRAM = """
import sys
from pdctl.spec.load import inspect
from pdctl.topology.judge import judge
judged = judge(inspect(sys.stdin.buffer.read(), "c.yaml"))
print(len(judged.errors), judged.errors[0] if judged.errors else "")
"""


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_a_file_made_to_exhaust_the_reader_is_judged_within_bounds(text: str) -> None:
    assert len(text) <= MAX_BYTES
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        input=text.encode(),
        capture_output=True,
        preexec_fn=bound,
        timeout=2 * SECONDS,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert done.stdout.split()[0].isdigit()


def bound() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def test_the_bounds_are_real() -> None:
    for program in ("x = bytearray(2 << 30)", "import resource; print(resource.getrlimit(9))"):
        done = subprocess.run([sys.executable, "-c", program], preexec_fn=bound, capture_output=True)
        assert done.returncode == (1 if "bytearray" in program else 0)
