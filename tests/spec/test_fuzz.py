"""Whatever the file holds, judging it gives a topology or errors, soon, in the user's words.

`PDCTL_FUZZ=N` runs N examples of each property; `make soak` some thousands.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdctl.desired import desire
from pdctl.errors import PdctlError
from pdctl.spec.load import inspect, parse
from pdctl.topology.judge import judge
from tests.spec.mutations import CASES, EXAMPLES, REAL, at, changes, paths, put, values_of

COUNT = int(os.environ.get("PDCTL_FUZZ") or (3000 if os.environ.get("PDCTL_SOAK") else 80))
SPECS = [*EXAMPLES, *REAL, *(case.read_text() for case in CASES if b"\0" not in case.read_bytes())]
VALUES = [values_of(text) for text in (*EXAMPLES, *REAL)]
# Words of pydantic's, Python's and the parser's own that a user should never meet.
FOREIGN = re.compile(
    r"Input should|type=|\bValue error\b|pydantic|validation error|<class|NoneType|\bdict\b|Traceback"
    r"|while (scanning|parsing)|<block|<scalar|Errno"
)
SHORT = "cluster: a\nhosts: [{name: h, gpus: 8}]\nmodel: {id: a/b}\nserving: {prefillers: {}, decoders: {}}\n"
# fmt: off
SCALARS = st.sampled_from([
    "", "~", "x", "0", "-1", "1.10", "007", "1e999", ".nan", "yes", "true", "22:22", "2024-01-01", "{}", "[]",
    '""', "*a", "&a x", "!!str x", "|", "'", '"', "{{ x }}", "$(id)", "%n", "<<", "hf_abc", "é", "9" * 30,
    "0x0a00000b", '"\\ud83d\\ude00"', '"\\ud800"',
])
SNIPPETS = st.sampled_from([
    "\n", " ", "\t", ":", ": ", "- ", "#", "{", "}", "[", "]", ",", '"', "'", "&a ", "*a", "<<: *a", "!x ",
    "|\n", "\r", "\0", "\x85", "\u2028", "\ufeff", "---\n", "...\n", "%YAML 1.1\n", "? ", "\\", "`", "@",
])
# Values that fields of their kind take, so that a changed spec is often sound and gets as far as its files.
FITTING: list[Any] = [
    2, 3, 4, 7, 63, 64, 4096, 22, 5600, 7100, 7200, 7300, 40100, 65535, 0.5, True, False, "gpu01", "gpu02",
    "nixl", "lmcache", "aggregated", "disaggregated", "simulator", "vllm", "cpu", "cuda", "127.0.0.1", "::1",
    "fd00::1", "10.0.0.9", "0.3.10", "0.11.0", "0.33.0", "3.10", "article-2025", "cuda13-2026", "pdctl/tiny",
    "/models/x", ["gpu01"], ["gpu01", "gpu01"], [0, 1], [7, 6], [7300, 7301], ["--kv-cache-dtype"],
    ["--hf-overrides", "{"], ["--a.b.c.d=1", "--a=2"], ["-", "--", "-tp", "--no-", "--x."],
    ["--kv-events-config", '{"endpoint": "tcp://*:7100"}'], {"UCX_TLS": "tcp"}, {"LMCACHE_X": "1"},
    "3.12.1", "0.11.0rc1", "1--x", "ib", "roce", "A40", "H100-SXM-80GB", "Qwen/Qwen3-8B", "float32", 0.99,
    ["--kv-cache-dt=fp8"], ["--max-num"], ["--lora-mod", "a=b", "c"], {"UCX_TLS": "^tcp"}, 1e9, 1.0,
    {"rack": "a"}, {"HOME": "/x"}, {"LD_LIBRARY_PATH": "/opt/ucx"}, {"PYTHONHASHSEED": "random"},
]
# fmt: on
many = settings(max_examples=COUNT, deadline=None, suppress_health_check=list(HealthCheck))


def outcome(raw: str | bytes) -> bool:
    """Whether it was refused, in good words and good time; what is sound can be rendered."""
    start = time.process_time()
    judged = judge(inspect(raw, "c.yaml"))
    for error in (*judged.errors, *judged.warnings):
        assert error.message and error.where and error.rule
        assert not FOREIGN.search(f"{error} {error.hint}"), error
        assert re.match(r"c\.yaml(:\d+:\d+)?(: |$)", error.where)
    assert time.process_time() - start < 5
    assert (judged.topology is None) == bool(judged.errors)
    if judged.topology is not None and len(judged.topology.instances) < 200:
        desire(judged.topology)
    return judged.topology is None


@many
@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    outcome(text)


@many
@given(st.binary(max_size=300))
def test_any_bytes(raw: bytes) -> None:
    outcome(raw)


@many
@given(
    st.sampled_from(SPECS),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), SNIPPETS | SCALARS), max_size=4),
)
def test_mutilated_specs(spec: str, cuts: list[tuple[float, int, str]]) -> None:
    for where, length, instead in cuts:
        place = int(where * len(spec))
        spec = spec[:place] + instead + spec[place + length :]
    outcome(spec)


SCALAR = re.compile(r"(?<=: )[^\s{}\[\],][^,{}\[\]\n]*")


@many
@given(st.data())
def test_specs_with_other_text_for_values(data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from(SPECS))
    places = list(SCALAR.finditer(spec))
    chosen = data.draw(st.sets(st.integers(0, len(places) - 1), max_size=3)) if places else set()
    for match in reversed([places[i] for i in sorted(chosen)]):
        spec = spec[: match.start()] + data.draw(SCALARS) + spec[match.end() :]
    outcome(spec)


@many
@given(st.data())
def test_specs_with_other_values(data: st.DataObject) -> None:
    """Real specs, up to three values changed: mostly to what the field could hold, else to anything."""
    values = data.draw(st.sampled_from(VALUES))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(paths(values))))
        old = at(values, path)
        fitting = [new for new in FITTING if type(new) is type(old)]
        anything = list(changes(old))
        new = data.draw(st.sampled_from(fitting or anything) | st.sampled_from(anything))
        values = put(values, path, new)
        if not values:
            break
    outcome(json.dumps(values))


KEYS = st.sampled_from(sorted({str(step) for values in VALUES for path in paths(values) for step in path}))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@many
@given(st.dictionaries(KEYS, json_values, max_size=6))
def test_any_values_under_known_keys(values: dict[str, object]) -> None:
    outcome(json.dumps(values))


@many
@given(st.text(max_size=40))
def test_text_arrives_exactly_or_not_at_all(text: str) -> None:
    words = json.dumps(["--download-dir", "x" + text], ensure_ascii=False)
    spec = SHORT.replace("decoders: {}", f"decoders: {{extra_args: {words}}}")
    try:
        cluster = parse(spec, "c.yaml")
    except PdctlError as error:
        assert not ("x" + text).isprintable() or "hf_" in text, error
        return
    assert cluster.serving.decoders is not None
    assert cluster.serving.decoders.extra_args == ["--download-dir", "x" + text]


WORDS = st.text(st.sampled_from('-_=.{}[]":, abkvcdtype-no0'), max_size=20) | st.sampled_from(
    [
        *(
            "--kv-cache-dtype",
            "--no-enable-lora",
            "-q",
            "--a.b",
            '{"a": [1]}',
            "--hf-overrides",
            "true",
            "-1",
        ),
        *(
            "--kv-cache-dt",
            "--enable-p",
            "--max-num",
            "-dpl",
            "-q8",
            "--middleware",
            "--lora-mod",
            "- x",
            "016",
        ),
    ]
)


@many
@given(st.lists(WORDS.filter(bool), max_size=6), st.lists(WORDS.filter(bool), max_size=6))
def test_any_arguments(ours: list[str], theirs: list[str]) -> None:
    sides = {"prefillers": {"extra_args": ours}, "decoders": {"extra_args": theirs}}
    outcome(SHORT.replace("{prefillers: {}, decoders: {}}", json.dumps(sides)))
