from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.bench.counters import PromptCheck, Reading, check_prompts, totals
from pdctl.bench.findings import findings
from pdctl.bench.presets import ARTICLE_GRID, QUICK
from pdctl.bench.prompts import Vocabulary, prompt
from pdctl.bench.stats import summarise
from tests.bench.runs import META, ok

EXPOSITION = """\
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="a \\"}\\" b"} 1000.0
vllm:prompt_tokens_total{engine="1",model_name="x"} 5e2 1700000000000
vllm:prefix_cache_hits_total 12
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 3
lmcache:retrieve_hit_rate NaN
broken line here
process_start_time_seconds 1.7e+09
"""


def reading(prompt_tokens: float, hits: float | None = 0.0) -> Reading:
    known = {"vllm:prompt_tokens_total": prompt_tokens}
    return Reading(known if hits is None else known | {"vllm:prefix_cache_hits_total": hits})


def warnings(check: PromptCheck | None) -> list[str]:
    made = findings(summarise([ok()] * 100, 1.0, META), check)
    return [finding.text for finding in made if finding.level == "warning"]


def test_counters_are_summed_over_their_labels():
    found = totals(EXPOSITION)
    assert found["vllm:prompt_tokens_total"] == 1500 and found["vllm:prefix_cache_hits_total"] == 12
    assert "lmcache:retrieve_hit_rate" not in found and "broken" not in found


@given(st.text())
def test_no_text_crashes_the_reader_of_metrics(text):
    totals(text)


@given(st.dictionaries(st.text(max_size=8), st.integers(0, 10**9), max_size=6))
def test_label_values_hold_anything(values):
    escaped = {
        name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"): value
        for name, value in values.items()
        if name.isprintable() or name == "\n"
    }
    text = "\n".join(f'tokens_total{{model="{name}",rank="0"}} {value}' for name, value in escaped.items())
    assert totals(text).get("tokens_total", 0) == sum(escaped.values())


@pytest.mark.parametrize(
    ("server", "warned"), [(10_000, False), (10_199, False), (10_201, True), (13_420, True)]
)
def test_the_server_may_count_two_percent_off(server, warned):
    check = check_prompts(10_000, {"prefiller-0": reading(500)}, {"prefiller-0": reading(500 + server)})
    assert check.server_tokens == server
    assert bool(warnings(check)) is warned


def test_a_deviation_names_both_totals():
    text = warnings(PromptCheck(10_000, 13_420, 0))[0]
    assert "13,420" in text and "10,000" in text and "+34.2%" in text


def test_prompts_are_added_over_the_prefillers():
    before = {"prefiller-0": reading(0), "prefiller-1": Reading({})}  # no counter before the first request
    check = check_prompts(100, before, {"prefiller-0": reading(60, 30), "prefiller-1": reading(40, 0)})
    assert (check.server_tokens, check.cached_tokens, check.deviation) == (100, 30, 0)
    assert "30% of the prompt tokens were in the prefix cache" in warnings(check)[0]


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (reading(9), Reading({}, "/metrics answers HTTP 404"), "prefiller-0: /metrics answers HTTP 404"),
        (Reading({}, "no"), reading(9), "prefiller-0: no"),
        (reading(9), Reading({"other": 1.0}), "prefiller-0: its /metrics has no vllm:prompt_tokens_total"),
        (reading(9), reading(3), "so the engine restarted"),
    ],
)
def test_counters_that_cannot_be_compared_are_a_warning(before, after, problem):
    check = check_prompts(100, {"prefiller-0": before}, {"prefiller-0": after})
    assert problem in check.problem and check.server_tokens is None and not check.deviates
    assert problem in warnings(check)[0]


def test_without_sources_nothing_is_compared():
    assert check_prompts(100, {}, {}) is None and warnings(None) == []


def test_answers_shorter_than_asked_are_an_early_stop():
    summary = summarise([ok(), ok(itls=(0.1,), tokens=2)], 1.0, META)
    assert "early stop: 1 of 2 answers have fewer than 4 tokens" in [f.text for f in findings(summary)]
    free = replace(summary, meta=replace(META, ignore_eos=False))
    assert not any("early stop" in finding.text for finding in findings(free))


def test_the_reader_is_told_what_limits_the_numbers():
    summary = summarise(
        [ok(itls=(0.1,), counted_by_chunks=True), ok(reported_input_tokens=12)],
        1.0,
        replace(META, simulated=True, first_token_from_prefiller=True),
        interrupted="interrupted",
    )
    texts = " | ".join(finding.text for finding in findings(summary))
    assert "TTFT ends with the prefiller's token" in texts
    assert "simulator" in texts and "partial: interrupted" in texts and "carried no usage" in texts
    assert "8 output tokens came in 6 chunks (1.33 a chunk)" in texts
    assert "usage reports 12 prompt tokens for 8 sent" in texts
    assert "p99 of TTFT and TPOT over 2 requests" in texts


def test_a_sound_run_of_many_requests_has_no_findings():
    assert findings(summarise([ok()] * 100, 1.0, META), PromptCheck(800, 800, 0)) == ()


def test_the_same_seed_gives_the_same_prompts_and_no_two_are_alike():
    ids = Vocabulary("tokens", 100, 1000)
    prompts = {prompt(ids, 16, 7, index) for index in range(500)} | {prompt(ids, 16, 7, 0, "warm-up")}
    assert len(prompts) == 501 and all(100 <= token < 1000 for words in prompts for token in words)
    assert prompt(ids, 6, 7, 0) == prompt(ids, 6, 7, 0) == (665, 921, 468, 767, 490, 545)
    assert prompt(ids, 16, 8, 0) not in prompts


def test_words_are_plain_and_as_many_as_asked():
    words = prompt(Vocabulary("words"), 12, 7, 0).split()
    assert len(words) == 12 and all(word.isascii() and word.isalpha() for word in words)


def test_an_empty_range_of_token_ids_is_refused():
    with pytest.raises(ValueError):
        Vocabulary("tokens", 5, 5)


def test_the_article_grid_is_ten_prompts_a_slot_over_two_input_lengths():
    assert {(p.input_len, p.output_len, p.max_concurrency, p.num_prompts) for p in ARTICLE_GRID} == {
        (length, 1024, slots, 10 * slots) for length in (1024, 8192) for slots in (1, 2, 4, 8, 16, 32)
    }


def test_quick_presets_fill_every_slot_more_than_once():
    assert QUICK.keys() == {"simulator", "cpu", "cuda"}
    assert all(preset.num_prompts >= 4 * preset.max_concurrency for preset in QUICK.values())
