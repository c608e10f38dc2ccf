import json
import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.bench.fields import result_fields
from pdctl.bench.stats import describe, distinct_errors, percentile, summarise
from tests.bench.runs import META, bad, ok, runs, seconds


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [  # computed with numpy.percentile
        ([15, 20, 35, 40, 50], 40, 29.0),
        ([1, 2, 3, 4], 25, 1.75),
        ([1, 2, 3, 4], 99, 3.97),
        ([7], 99.9, 7.0),
        ([1, 2], 0, 1.0),
        ([1, 2], 100, 2.0),
    ],
)
def test_percentiles_have_known_values(values, q, expected):
    assert percentile(values, q) == pytest.approx(expected, abs=1e-12)


@given(st.lists(seconds, min_size=2, max_size=50))
def test_percentiles_agree_with_the_inclusive_quantiles_of_the_standard_library(values):
    ours = [percentile(sorted(values), q) for q in range(1, 100)]
    theirs = statistics.quantiles(values, n=100, method="inclusive")
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9)


@given(st.lists(seconds, min_size=1), st.floats(0, 100), st.floats(0, 100))
def test_a_percentile_lies_inside_and_grows_with_its_rank(values, first, second):
    ordered, (low, high) = sorted(values), sorted((first, second))
    assert ordered[0] <= percentile(ordered, low) <= percentile(ordered, high) <= ordered[-1]


@pytest.mark.parametrize(("values", "q"), [([], 50), ([1.0], -1), ([1.0], 100.5)])
def test_no_percentile_is_made_up(values, q):
    with pytest.raises(ValueError):
        percentile(values, q)


def test_itl_is_pooled_over_gaps_and_tpot_is_per_request():
    # one request with three gaps, one with a single gap: the mean of ITL weighs gaps, that of TPOT requests
    summary = summarise([ok(itls=(0.010, 0.020, 0.030)), ok(itls=(0.100,), tokens=2)], 2.0, META)
    assert summary.itl.count == 4 and summary.itl.mean == pytest.approx(40.0)
    assert summary.tpot.count == 2 and summary.tpot.mean == pytest.approx((20.0 + 100.0) / 2)
    assert summary.e2el.mean == pytest.approx((160.0 + 200.0) / 2)


def test_tpot_divides_by_tokens_even_when_a_chunk_carries_several():
    assert ok(itls=(0.09,), tokens=10).tpot_s == pytest.approx(0.01)


def test_a_single_token_has_no_tpot_and_no_gap():
    summary = summarise([ok(itls=(), tokens=1)], 1.0, META)
    assert (summary.tpot.count, summary.itl.count, summary.tpot.mean, summary.itl.at(99)) == (
        0,
        0,
        None,
        None,
    )
    assert summary.ttft.mean == summary.e2el.mean == pytest.approx(100.0)


def test_failed_requests_count_as_failed_and_in_nothing_else():
    good = [ok(), ok(ttft=0.3)]
    alone, mixed = summarise(good, 2.0, META), summarise([*good, bad(), bad(ttft=0.000001)], 2.0, META)
    assert (mixed.num_prompts, mixed.completed, mixed.failed) == (4, 2, 2)
    assert mixed.ttft == alone.ttft and mixed.request_throughput == alone.request_throughput == 1.0
    assert mixed.total_token_throughput == 12.0


def test_a_run_that_completed_nothing_has_no_latency():
    record = result_fields(summarise([bad()] * 3, 2.0, META))
    assert (
        record["mean_ttft_ms"] is None
        and record["p99_itl_ms"] is None
        and record["request_throughput"] == 0.0
    )
    assert (record["completed"], record["failed"], record["ttfts"]) == (0, 3, [None] * 3)


@given(runs, st.floats(0, 1e4))
def test_every_record_is_finite_json_and_adds_up(samples, duration):
    record = json.loads(json.dumps(result_fields(summarise(samples, duration, META)), allow_nan=False))
    assert record["completed"] + record["failed"] == record["num_prompts"] == len(samples)
    assert sum(record["output_lens"]) == record["total_output_tokens"]
    assert [not error for error in record["errors"]].count(True) == record["completed"]
    assert len(record["itls"]) == len(record["ttfts"]) == len(record["start_times"]) == len(samples)


@given(runs)
def test_the_order_of_requests_changes_no_figure(samples):
    forth, back = summarise(samples, 3.0, META), summarise(samples[::-1], 3.0, META)
    assert replace(back, samples=forth.samples) == forth


@given(st.lists(seconds, min_size=1))
def test_mean_median_and_percentiles_lie_between_the_extremes(values):
    made = describe(values, (50, 90, 99))
    low, high = min(values) * 1000 * (1 - 1e-12), max(values) * 1000 * (1 + 1e-12)
    assert low <= made.mean <= high and low <= made.median <= high
    assert made.median == made.at(50) <= made.at(90) <= made.at(99)
    assert made.std == pytest.approx(statistics.pstdev(value * 1000 for value in values), rel=1e-6, abs=1e-6)


def test_the_record_has_the_field_names_of_vllm_bench():
    metrics = ("ttft", "tpot", "itl", "e2el")
    expected = {  # vLLM 0.11.0 and 0.33.0, `vllm bench serve --save-result --save-detailed`
        *("date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts"),
        *("request_rate", "burstiness", "max_concurrency", "duration", "completed", "failed"),
        *("total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput"),
        *("output_throughput", "total_token_throughput"),
        *(
            f"{word}_{metric}_ms"
            for metric in metrics
            for word in ("mean", "median", "std", "p50", "p90", "p99")
        ),
        *("input_lens", "output_lens", "ttfts", "itls", "errors", "start_times"),
    }
    record = result_fields(summarise([ok()], 1.0, META))
    assert record.keys() == expected | {"pdctl"}
    assert record["request_rate"] == "inf" and record["burstiness"] == 1.0
    assert record["mean_ttft_ms"] == pytest.approx(100.0) and record["ttfts"] == [0.1]


def test_a_percentile_that_is_not_whole_keeps_its_fraction_in_the_name():
    record = result_fields(summarise([ok()], 1.0, META, percentiles=(50, 99.9)))
    assert "p99.9_itl_ms" in record and "p50_itl_ms" in record and "p99_itl_ms" not in record


def test_generated_text_is_recorded_only_when_kept():
    assert "generated_texts" not in result_fields(summarise([ok()], 1.0, META))
    assert result_fields(summarise([ok(text="hi")], 1.0, META))["generated_texts"] == ["hi"]


@pytest.mark.parametrize(
    "wrong",
    [{"ttft_s": math.nan}, {"ttft_s": math.inf}, {"itls_s": (-0.1,)}, {"start_s": -1.0}, {"ttft_s": None}],
)
def test_a_sample_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError):
        replace(ok(), **wrong)


def test_distinct_errors_keep_their_order_and_count():
    assert distinct_errors(["b", "", "a", "b"]) == (("b", 2), ("a", 1))
