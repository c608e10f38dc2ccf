"""Units that run as wanted and were never seen healthy: something is left to do, but nothing restarts."""

from __future__ import annotations

from dataclasses import replace

from pdctl.plan import make_plan
from pdctl.state import Key, Resource
from tests.plan.test_restarts import files_and_units, key, unit, without_peers

WHY = "did not become healthy in 10 s"
UNPROVEN = {key("decoder-0"): WHY}


def test_a_unit_that_never_answered_in_time_is_left_to_do_and_the_plan_says_why() -> None:
    there = files_and_units()
    plan = make_plan(without_peers(), there, there, there, pending=frozenset(UNPROVEN), unproven=UNPROVEN)
    assert not plan.empty and not plan.changes and not plan.restarts
    (row,) = plan.drift
    assert row.unproven and (row.key, row.what) == (key("decoder-0"), (f"{WHY}; apply asks it again",))
    assert [step.keys for step in plan.steps] == [(key("decoder-0"),)]


def test_after_a_first_apply_with_slow_decoders_they_are_asked_before_prefillers_and_proxy_start() -> None:
    wanted = files_and_units()
    there: dict[Key, Resource] = {
        k: r for k, r in wanted.items() if k not in (key("prefiller-0"), key("proxy"))
    }
    plan = make_plan(without_peers(), wanted, there, there, pending=frozenset(UNPROVEN), unproven=UNPROVEN)
    units = [k.id for step in plan.steps for k in step.keys if k.id.startswith("unit:")]
    assert units == [key(name).id for name in ("decoder-0", "prefiller-0", "proxy")]
    assert not plan.restarts


def test_one_that_restarts_is_asked_by_its_restart_alone() -> None:
    there = files_and_units()
    there[key("decoder-0")] = replace(unit("decoder-0", "decoder"), revision="r0")
    plan = make_plan(
        without_peers(), files_and_units(), there, there, pending=frozenset(UNPROVEN), unproven=UNPROVEN
    )
    assert [r.instance for r in plan.restarts] == ["decoder-0"]
    assert sum(key("decoder-0") in step.keys for step in plan.steps if step.kind == "units") == 1


def test_one_that_left_the_spec_is_not_said_to_be_asked() -> None:
    there = files_and_units()
    wanted = {k: r for k, r in there.items() if k != key("decoder-0")}
    plan = make_plan(without_peers(), wanted, there, there, pending=frozenset(UNPROVEN), unproven=UNPROVEN)
    assert [row.what for row in plan.drift] == [(WHY,)]
