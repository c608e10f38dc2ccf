import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.bench.fields import result_fields
from pdctl.bench.slo import Slo, judge
from pdctl.bench.stats import summarise
from tests.bench.runs import META, bad, ok, runs


def verdict(samples, duration=2.0, **slo):
    return judge(summarise(samples, duration, META), Slo(**slo))


def test_attainment_is_the_share_of_requests_that_met_every_target():
    samples = [ok(ttft=0.1), ok(ttft=0.1, itls=(0.5,), tokens=2), ok(ttft=9.0), ok(ttft=0.1)]
    seen = verdict(samples, ttft_ms=200, tpot_ms=50, attainment=0.5)
    assert (seen.attainment, seen.goodput, seen.met) == (0.5, 1.0, True)
    assert seen.attainments == {"ttft": 0.75, "tpot": 0.75}


def test_a_failed_request_misses_every_target():
    seen = verdict([ok()] * 3 + [bad(ttft=0.001)], ttft_ms=200)
    assert seen.attainment == 0.75 and not seen.met
    assert seen.missed == ("90.0% of the requests should have ttft <= 200 ms; 75.0% did",)


def test_a_target_that_is_met_exactly_is_met():
    assert verdict([ok(ttft=0.25)], ttft_ms=250, attainment=1.0).met
    assert verdict([ok()] * 9 + [bad()], ttft_ms=250, attainment=0.9).met


def test_the_tail_of_the_gaps_is_judged_over_all_of_them_together():
    samples = [ok(itls=(0.01,) * 50, tokens=51), ok(itls=(0.01,) * 49 + (0.9,), tokens=51)]
    assert verdict(samples, itl_p99_ms=30).met
    seen = verdict([*samples, ok(itls=(0.9,) * 3)], itl_p99_ms=30)
    assert seen.missed == ("ITL p99 should be <= 30 ms; it was 900.0 ms",) and seen.attainment == 1.0


def test_answers_without_gaps_cannot_show_that_the_tail_is_met():
    assert verdict([ok(itls=(), tokens=1)], itl_p99_ms=30).missed == (
        "ITL p99 should be <= 30 ms; 1 answers had no gap to measure",
    )


def test_no_requests_is_a_miss():
    seen = verdict([], ttft_ms=200)
    assert (seen.met, seen.attainment) == (False, None) and "none were sent" in seen.missed[0]


def test_a_single_token_does_not_miss_the_tpot():
    assert verdict([ok(itls=(), tokens=1)], tpot_ms=1).met


@given(runs, st.floats(1, 1e7), st.floats(1, 1e7))
def test_a_looser_target_is_never_met_by_fewer(samples, one, other):
    tight, loose = sorted((one, other))
    strict, lax = (
        verdict(samples, ttft_ms=tight, e2el_ms=tight),
        verdict(samples, ttft_ms=loose, e2el_ms=loose),
    )
    assert (strict.goodput or 0) <= (lax.goodput or 0) and (lax.met or not strict.met)


def test_goodput_and_targets_are_recorded():
    summary = summarise([ok()], 2.0, META)
    record = result_fields(summary, judge(summary, Slo(ttft_ms=200)))
    assert record["request_goodput"] == 0.5
    assert record["pdctl"]["slo"]["targets"] == {"ttft_ms": 200, "attainment": 0.9}
    assert record["pdctl"]["slo"]["met"] is True


@pytest.mark.parametrize("wrong", [{}, {"ttft_ms": 0}, {"ttft_ms": 1, "attainment": 0}, {"tpot_ms": -1}])
def test_an_slo_that_says_nothing_is_refused(wrong):
    with pytest.raises(ValueError):
        Slo(**wrong)
