"""How long a plan probably takes, and whom it touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pdctl.plan import make_plan
from pdctl.plan.estimate import Estimate, Estimates, duration, estimate
from pdctl.plan.radius import Radius, radius
from pdctl.state import Key
from tests.plan.changes import SPEC, Edit, edit

SEQS = ("max_num_seqs: 64", "max_num_seqs: 128")
GPUS = """\
cluster: chat
hosts:
  - {name: gpu01, address: 10.0.0.11, gpus: {count: 8, model: H100-SXM-80GB}}
model: {id: openai/gpt-oss-120b}
serving:
  load_timeout_s: 1800
  prefillers: {count: 1, tensor_parallel: 2}
  decoders: {count: 1, tensor_parallel: 2, max_num_seqs: 64}
"""


def times(done: Edit, **seconds: float) -> Estimates:
    """`seconds` are those of the last starts, by instance with `_` for `-`."""
    names = {name.replace("_", "-"): value for name, value in seconds.items()}
    timings = {
        key: value
        for key in done.desired
        for name, value in names.items()
        if key.id.endswith(f"-{name}.service")
    }
    return estimate(done.topology, done.plan, done.desired, timings)


def whom(done: Edit) -> Radius:
    return radius(done.topology, done.plan, done.observed)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (40, "40 s"), (300, "5 min"), (5400, "1 h 30 min"), (7200, "2 h")]
)
def test_durations_are_told_in_two_figures(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_start_takes_as_long_as_the_last_one_did() -> None:
    found = times(edit(SEQS), decoder_0=20, decoder_1=30)
    assert found.steps["restart_1"].text == "about 22 s" and found.steps["restart_2"].text == "about 32 s"


def test_an_engine_that_was_never_timed_may_take_its_whole_load_timeout() -> None:
    done = edit(SEQS, spec=GPUS, earlier=GPUS)
    assert times(done).total.text.startswith("up to ") and "min" in times(done).total.text
    known = times(done, decoder_0=300, prefiller_0=200)
    assert known.total.text.startswith("about ")


def test_a_drain_lasts_a_lease_and_what_nobody_knows() -> None:
    step = times(edit(SEQS)).steps["drain_1"]
    assert step.text == "about 6 s and the requests in flight" and step.unknown == ("the requests in flight",)


def test_a_proxy_that_takes_up_its_list_is_not_started() -> None:
    done = edit(("count: 2\n    max", "count: 3\n    max"))
    assert times(done, proxy=99).steps["proxy"].seconds < 5


def test_estimates_add_up_and_say_what_is_not_counted_once() -> None:
    one = Estimate(1, 100, ("the requests in flight",))
    assert (one + one).text == "up to 3 min and the requests in flight"


def test_one_decoder_is_touched_and_the_others_serve() -> None:
    spec = SPEC.replace("count: 2\n    max", "placement: [{host: h1}, {host: h2}]\n    max")
    pair = ("{host: h2}]", "{host: h2, ports: {init: [7777]}}]")
    found = whom(edit(pair, spec=spec, earlier=spec))
    assert found.touched["decoder"] == ("decoder-1",) and found.restarts == (("h2", "decoder-1"),)
    assert found.drains == ("decoder-1",) and found.serving == ("prefillers", "decoders", "the proxy")
    assert found.text(Estimate(40, 40)).startswith("touches 1 of 2 decoders, restarts 1 unit on h2, ")


def test_what_comes_and_goes_is_named_or_counted() -> None:
    more = whom(edit(("count: 2\n    max", "count: 3\n    max"), ("count: 2\n  dec", "count: 1\n  dec")))
    assert more.text(Estimate()).startswith("adds decoder-2, removes prefiller-1, ")
    many = whom(edit(("count: 2\n    max", "count: 7\n    max")))
    assert many.text(Estimate()).startswith("adds 5 decoders, ")


def test_a_role_whose_only_member_restarts_does_not_serve() -> None:
    spec = SPEC.replace("count: 2\n    max", "count: 1\n    max")
    found = whom(edit(SEQS, spec=spec, earlier=spec))
    assert found.serving == ("prefillers", "the proxy") and len(found.outages) == 1
    assert "nothing is answered" in found.text(Estimate())


def test_a_stopped_decoder_is_started() -> None:
    plain = edit()
    key = Key("h2", "unit:pdctl-chat-decoder-0.service")
    observed = {**plain.observed, key: replace(plain.observed[key], active="inactive", revision="")}
    plan = make_plan(plain.topology, plain.desired, observed, plain.observed)
    found = radius(plain.topology, plan, observed)
    assert found.starts == ("decoder-0",) and found.adds == () and "decoders" in found.serving


def stopped(*names: str, away: Mapping[str, str] | None = None) -> Radius:
    """The radius where these units do not run, though nobody has asked for that."""
    plain = edit()
    units = {f"unit:pdctl-chat-{name}.service" for name in names}
    observed = {
        key: replace(row, active="inactive", revision="") if key.id in units else row
        for key, row in plain.observed.items()
        if key.host not in (away or {})
    }
    plan = make_plan(plain.topology, plain.desired, observed, plain.observed, unreachable=away)
    return radius(plain.topology, plan, observed)


def test_without_any_decoder_the_plan_says_that_nothing_is_answered() -> None:
    found = stopped("decoder-0", "decoder-1")
    assert found.outages == ("no decoder runs: nothing is answered until one does",)
    assert found.text(Estimate()).endswith(
        "no decoder runs: nothing is answered until one does; prefillers and the proxy keep running"
    )
    assert stopped("decoder-1").outages == ()
    assert stopped("proxy").outages == ("the proxy does not run: nothing is answered until it does",)


def test_what_runs_on_a_host_that_was_left_out_is_not_said_to_be_down() -> None:
    assert stopped("decoder-0", "decoder-1", away={"h2": "timed out"}).outages == ()
