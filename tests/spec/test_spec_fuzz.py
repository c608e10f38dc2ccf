"""Whatever the file holds, reading it gives a Cluster or a PdctlError, soon, in the user's words."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdctl.errors import ErrorGroup, PdctlError
from pdctl.spec.load import examine, parse

CASES = Path(__file__).parents[1] / "cases" / "spec"
SPECS = [path.read_text() for path in sorted(CASES.glob("*.yml")) if b"\0" not in path.read_bytes()]
EVERYTHING = (CASES / "valid-everything.yml").read_text()
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
])
SNIPPETS = st.sampled_from([
    "\n", " ", "\t", ":", ": ", "- ", "#", "{", "}", "[", "]", ",", '"', "'", "&a ", "*a", "<<: *a", "!x ",
    "|\n", "\r", "\0", "\x85", "\u2028", "\ufeff", "---\n", "...\n", "%YAML 1.1\n", "? ", "\\", "`", "@",
])
# fmt: on
quickly = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def outcome(raw: str | bytes) -> bool:
    """Whether it was refused, in good words and good time."""
    start, refused = time.process_time(), False
    try:
        examine(raw, "c.yaml")
    except PdctlError as error:
        refused = True
        for part in error.errors if isinstance(error, ErrorGroup) else (error,):
            assert part.message and part.where
            assert not FOREIGN.search(f"{part} {part.hint}"), part
            assert re.match(r"c\.yaml(:\d+:\d+)?(: |$)", part.where)
    assert time.process_time() - start < 5
    return refused


@quickly
@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    outcome(text)


@quickly
@given(st.binary(max_size=300))
def test_any_bytes(raw: bytes) -> None:
    outcome(raw)


@quickly
@given(
    st.sampled_from(SPECS),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), SNIPPETS | SCALARS), max_size=4),
)
def test_mutilated_specs(spec: str, cuts: list[tuple[float, int, str]]) -> None:
    for where, length, instead in cuts:
        at = int(where * len(spec))
        spec = spec[:at] + instead + spec[at + length :]
    outcome(spec)


VALUE = re.compile(r"(?<=: )[^\s{}\[\],][^,{}\[\]\n]*")


@quickly
@given(st.data())
def test_specs_with_other_values(data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from([EVERYTHING, *SPECS]))
    places = list(VALUE.finditer(spec))
    chosen = data.draw(st.sets(st.integers(0, len(places) - 1), max_size=3)) if places else set()
    for match in reversed([places[i] for i in sorted(chosen)]):
        spec = spec[: match.start()] + data.draw(SCALARS) + spec[match.end() :]
    outcome(spec)


KEYS = st.sampled_from(sorted(set(re.findall(r"[a-z_]+(?=:)", EVERYTHING))))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@quickly
@given(st.dictionaries(KEYS, json_values, max_size=6))
def test_any_values_under_known_keys(values: dict[str, object]) -> None:
    outcome(json.dumps(values))


@quickly
@given(st.text(max_size=40))
def test_text_arrives_exactly_or_not_at_all(text: str) -> None:
    spec = SHORT.replace("{}}", f"{{extra_args: [{json.dumps('x' + text, ensure_ascii=False)}]}}}}")
    try:
        cluster = parse(spec, "c.yaml")
    except PdctlError as error:
        assert not ("x" + text).isprintable() or "hf_" in text, error
        return
    assert cluster.serving.decoders is not None
    assert cluster.serving.decoders.extra_args == ["x" + text]


SIZE = 1 << 18  # a quarter of what is read at most
HEAVY = {
    "open lists": "[" * (SIZE - 1),
    "open mappings": "{" * (SIZE - 1),
    "list indicators": "- " * (SIZE // 2),
    "key indicators": "? " * (SIZE // 2),
    "colons": ":" * (SIZE - 1),
    "digits": "a: " + "1" * (SIZE - 4),
    "tags": "!a " * (SIZE // 3),
    "aliases": "*a " * (SIZE // 3),
    "one word": "a" * (SIZE - 1),
    "laughs": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(
        f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefghij", "bcdefghijk", strict=True)
    ),
    "deep through aliases": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} [[[[*a{i - 1}]]]]\n" for i in range(1, 2000)),
    "merged laughs": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 2000)),
    "wide merges": "a: &a {"
    + ",".join(f"k{i}: 1" for i in range(3000))
    + "}\n"
    + "".join(f"b{i}: {{<<: *a}}\n" for i in range(2000)),
}


@pytest.mark.parametrize("text", HEAVY.values(), ids=HEAVY.keys())
def test_files_made_to_exhaust_the_reader(text: str) -> None:
    assert outcome(text)
