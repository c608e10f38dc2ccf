"""Every case from a bug report holds, and the runner notices one that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cases.bug_cases import Case, cases, complaints, verdict

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_the_case_holds(case: Case) -> None:
    if not case.checks and not case.held_by:
        assert case.missing
        pytest.skip(f"missing: {case.missing[0]['what']}")
    assert list(complaints(case)) == []


def test_every_part_of_a_kind_is_checked_or_named_as_missing() -> None:
    for case in CASES:
        found = any("finds" in check for check in case.checks)
        rendered = any("renders" in check for check in case.checks) or bool(case.held_by)
        assert "V" not in case.kind or found or case.missing, case.id
        assert "R" not in case.kind or rendered or case.missing, case.id


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"finds": ()}, "found"),
        ({"finds": ({"rule": "PORT003", "at": "serving.nowhere"},)}, "is not"),
        ({"renders": ({"proxy": {"model": "other"}},)}, "nothing is rendered"),
    ],
)
def test_a_case_that_does_not_hold_is_noticed(change: dict[str, object], said: str) -> None:
    check = {
        "name": "x",
        "spec": "serving: {prefillers: {}, decoders: {}, ports: {prefiller: 7200}}\n",
        "finds": ({"rule": "PORT003"},),
    }
    case = replace(CASES[0], checks=(check | change,), held_by=(), missing=())
    assert any(said in complaint for complaint in complaints(case))
    assert verdict(case).startswith("FAIL")


@pytest.mark.parametrize(
    "wanted",
    [
        {"engine": "decoder-0", "env": {"PYTHONHASHSEED": "1"}},
        {"engine": "decoder-0", "lmcache": {"chunk_size": 1}},
        {"engine": "decoder-0", "unit": {"Service": {"User": "root"}}},
        {"engine": "decoder-0", "flags": {"port": "1"}},
        {"engine": "decoder-0", "argv": ["no", "such"]},
        {"engine": "decoder-0", "no_argv": ["^--port$"]},
        {"engine": "decoder-0", "transfer": {"kv_role": "kv_both"}},
        {"proxy": {"decoders": [{"name": "x"}]}},
        {"packages": ["nonsense"]},
        {"distinct": ["PYTHONHASHSEED"]},
    ],
)
def test_a_wrong_rendering_is_noticed(wanted: dict[str, object]) -> None:
    check = {"name": "x", "spec": "stack: article-2025\n", "renders": (wanted,)}
    case = replace(CASES[0], checks=(check,), held_by=(), missing=())
    assert list(complaints(case))


def test_a_test_that_is_not_there_is_noticed() -> None:
    case = replace(CASES[0], checks=(), held_by=("tests/cases/test_bugs.py::test_nothing",), missing=())
    assert list(complaints(case)) == ["no test tests/cases/test_bugs.py::test_nothing"]
