import json
import os
import stat
from dataclasses import replace

import pytest

from pdctl.bench.fields import result_fields, result_name
from pdctl.bench.result import read_result, require_success, write_result
from pdctl.bench.stats import summarise
from pdctl.errors import BenchError
from tests.bench.runs import META, bad, ok


def file(tmp_path, content: str | bytes):
    path = tmp_path / "result.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "new" / "result.json"
    write_result(path, result_fields(summarise([ok(), bad("gone")], 2.0, META)))
    seen = read_result(path)
    assert (seen.num_prompts, seen.completed, seen.failed, seen.errors) == (2, 1, 1, ("gone",))
    assert seen.metric("mean_ttft_ms") == pytest.approx(100.0) and seen.metric("label") is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o644 and [p.name for p in path.parent.iterdir()] == [
        path.name
    ]


def test_the_file_keeps_its_mode_under_a_strict_umask_and_replaces_the_old_one_whole(tmp_path):
    path = file(tmp_path, "x" * 100_000)
    before = os.umask(0o077)
    try:
        write_result(path, {"num_prompts": 1})
    finally:
        os.umask(before)
    assert json.loads(path.read_text()) == {"num_prompts": 1} and stat.S_IMODE(path.stat().st_mode) == 0o644


def test_nan_is_never_written_and_leaves_the_old_file(tmp_path):
    path = file(tmp_path, "old")
    with pytest.raises(ValueError):
        write_result(path, {"mean_ttft_ms": float("nan")})
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    target = tmp_path / "result.json"
    target.mkdir()  # a rename onto a directory fails
    with pytest.raises(BenchError, match=r"result.json: the result cannot be written"):
        write_result(target, {})
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_failures_are_derived_where_old_versions_write_none(tmp_path):
    seen = read_result(file(tmp_path, '{"num_prompts":500,"completed":497,"duration":60.2}'))
    assert seen.failed == 3
    with pytest.raises(BenchError, match=r"completed 497 of 500 requests \(0 failures tolerated\)"):
        require_success(seen.num_prompts, seen.completed, seen.errors)
    require_success(seen.num_prompts, seen.completed, seen.errors, tolerated=3)


def test_a_run_that_completed_nothing_is_no_record_and_no_success(tmp_path):
    content = '{"num_prompts":200,"completed":0,"failed":200,"request_throughput":0.0,"mean_ttft_ms":0.0}'
    seen = read_result(file(tmp_path, content))
    assert seen.metric("mean_ttft_ms") is None and seen.metric("request_throughput") == 0.0
    with pytest.raises(BenchError, match="completed 0 of 200"):
        require_success(200, 0, (), tolerated=200)


def test_the_first_distinct_errors_are_listed():
    errors = ["HTTP 500: a", "HTTP 500: b", "", "HTTP 500: a", "c", "d"]
    with pytest.raises(BenchError) as caught:
        require_success(9, 4, errors, where="http://proxy:9100")
    assert str(caught.value).splitlines() == [
        "http://proxy:9100: completed 4 of 9 requests (0 failures tolerated)",
        "  2 x HTTP 500: a",
        "  1 x HTTP 500: b",
        "  1 x c",
        "  ...",
    ]
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "is empty"),
        ("\n", "is empty"),
        (b"\xff\xfe\x00", "is no text"),
        ('{"num_prompts": 200, "completed": 1', "is no valid JSON"),
        ('{"num_prompts": 2, "completed": 2, "mean_itl_ms": NaN}', "NaN is no measurement"),
        ('{"num_prompts": 2, "completed": 2, "itls": [[0.1, Infinity]]}', "Infinity is no measurement"),
        ('{"num_prompts": 2, "completed": 2, "duration": 1e999}', "1e999 is no measurement"),
        ("[]", "holds no JSON object"),
        ("[" * 100_000, "is no valid JSON"),
        ('{"completed": 2}', "num_prompts should be a count, but is None"),
        ('{"num_prompts": "2", "completed": 2}', "num_prompts should be a count, but is '2'"),
        ('{"num_prompts": 2, "completed": true}', "completed should be a count, but is True"),
        ('{"num_prompts": 2, "completed": 3}', "do not add up: num_prompts 2, completed 3, failed -1"),
        ('{"num_prompts": 9, "completed": 5, "failed": 0}', "do not add up"),
        ('{"num_prompts": 0, "completed": 0}', "do not add up"),
    ],
)
def test_a_file_that_cannot_be_believed_is_refused_with_its_path(tmp_path, content, error):
    with pytest.raises(BenchError) as caught:
        read_result(file(tmp_path, content))
    assert error in str(caught.value) and caught.value.where == str(tmp_path / "result.json")


def test_a_missing_file_is_refused_with_its_path(tmp_path):
    with pytest.raises(BenchError, match=r"none.json: the result file cannot be read: No such file"):
        read_result(tmp_path / "none.json")


def test_appended_results_get_a_hint(tmp_path):
    with pytest.raises(BenchError) as caught:
        read_result(
            file(tmp_path, '{"num_prompts": 1, "completed": 1}\n{"num_prompts": 1, "completed": 1}\n')
        )
    assert "--append-result" in caught.value.hint


@pytest.mark.parametrize(
    ("label", "model", "name"),
    [
        (None, "openai/gpt-oss-120b", "openai-infqps-concurrency4-gpt-oss-120b-20261130-120000.json"),
        ("pd 2p1d", "/opt/models/tiny/", "pd_2p1d-infqps-concurrency4-tiny-20261130-120000.json"),
        ("../../etc/x", "m", "_.._etc_x-infqps-concurrency4-m-20261130-120000.json"),
    ],
)
def test_the_default_name_is_that_of_vllm_bench_and_stays_in_its_directory(label, model, name):
    assert result_name(summarise([], 1.0, replace(META, label=label, model_id=model))) == name
