"""A host that is left out may serve all the while: what is said of it, and what is done for its engines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.errors import ApplyError
from pdctl.plan import Plan, make_plan
from pdctl.plan.left_out import refuse_left_out
from pdctl.plan.radius import radius
from pdctl.state import File, Key, Unit
from tests.plan.changes import SPEC, Edit, edit
from tests.plan.test_moves import outages
from tests.plan.test_rollout import EXAMPLES, World, cluster_of, debts, seen, wanted

AWAY = {"h2": "no answer"}  # decoder-0 and prefiller-1 are there
DECODERS = ("NCCL_DEBUG: WARN", "NCCL_DEBUG: INFO")
UNSURE = "decoder-0 on h2 was not looked at: unless it serves, nothing is answered until decoder-1 is back"


def without_h2(done: Edit) -> Plan:
    seen = {key: row for key, row in done.observed.items() if key.host != "h2"}
    contents = {key: row.content for key, row in seen.items() if isinstance(row, File) and row.content}
    return make_plan(done.topology, done.desired, seen, seen, contents=contents, unreachable=AWAY)


def told(plan: Plan) -> list[tuple[str, tuple[str, ...], bool]]:
    return [(step.name, step.drain, step.others) for step in plan.steps]


def test_who_restarts_is_drained_for_engines_that_may_serve_and_the_plan_claims_nothing_of_them() -> None:
    plan = without_h2(edit(DECODERS))
    assert told(plan) == [
        ("drain_1", ("decoder-1",), False),
        ("restart_1", (), True),
        ("undrain", (), True),
    ]
    assert outages(plan) == {"drain_1": UNSURE, "restart_1": UNSURE}
    words = list(radius(edit(DECODERS).topology, plan, {})._service())
    assert UNSURE in words and not any("decoders" in line for line in words)


def test_who_was_looked_at_and_stays_is_relied_on_alone() -> None:
    """Of three one is out of sight: the others restart one by one, and that one of them serves is sure."""
    spec = SPEC.replace("count: 2\n    max", "placement: [h2, h1, h1]\n    max")
    plan = without_h2(
        edit(DECODERS, spec=spec.replace("  lmcache", "  rollout: {max_unavailable: 2}\n  lmcache"))
    )
    assert [step.drain for step in plan.steps if step.drain] == [("decoder-1",), ("decoder-2",)]
    assert not outages(plan) and all(step.others for step in plan.steps)


def test_waves_count_on_a_pair_that_was_not_looked_at_only_with_words() -> None:
    stale = SPEC.replace("engine: simulator", "engine: {kind: simulator, simulator: {stale_peers: true}}")
    plan = without_h2(edit(DECODERS, spec=stale))
    assert told(plan)[0] == ("drain_1", ("decoder-1", "prefiller-0"), False)
    (words,) = set(outages(plan).values())
    assert words == (
        "decoder-0 and prefiller-1 on h2 were not looked at: unless they serve, nothing is answered until"
        " decoder-1 and prefiller-0 are back"
    )


def test_one_that_leaves_is_drained_for_one_that_may_serve() -> None:
    plan = without_h2(edit(("count: 2\n    max", "count: 1\n    max")))
    assert told(plan)[0] == ("leave", ("decoder-1",), False)
    assert outages(plan) == {
        "leave": "decoder-0 on h2 was not looked at: unless it serves, nothing is answered"
    }


def test_one_that_was_left_drained_out_of_sight_is_neither_relied_on_nor_given_requests_before_the_end() -> (
    None
):
    done = edit(DECODERS)
    proxy = Key("h1", "unit:pdctl-chat-proxy.service")
    unit = done.observed[proxy]
    assert isinstance(unit, Unit)
    observed = {**done.observed, proxy: replace(unit, drained=("decoder-0",))}
    plan = without_h2(replace(done, observed=observed))
    assert not any("decoder-0" in step.undrain for step in plan.steps)
    assert outages(plan)["restart_1"].startswith("no other decoder serves: what decoder-1 works on fails")


COMMON = [("chunk_size: 32", "chunk_size: 64"), ("served_name: tiny}", "served_name: tiny, dtype: float16}")]


@pytest.mark.parametrize("change", COMMON)
def test_what_all_must_agree_on_is_not_changed_while_some_are_out_of_sight(change: tuple[str, str]) -> None:
    done = edit(change)
    with pytest.raises(ApplyError) as error:
        refuse_left_out(done.topology, without_h2(done), done.desired, contents(done), done.reasons)
    assert error.value.where is not None and error.value.where.startswith("cluster.yaml:")
    assert "must agree on it, and decoder-0 on h2 would not follow decoder-1" in error.value.message
    assert error.value.hint == (
        "bring h2 back (no answer), or take decoder-0 and prefiller-1 out of the spec until then"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("  lmcache: {", "  ports: {decoder: 7250}\n  lmcache: {"), "would look for decoder-0 on h2 at"),
        (
            ("chunk_size: 32}", "chunk_size: 32, buffer_bytes: 134217728}"),
            "would give decoder-0 on h2 more KV",
        ),
    ],
)
def test_nor_what_the_proxy_would_take_them_for(change: tuple[str, str], words: str) -> None:
    done = edit(change)
    with pytest.raises(ApplyError, match=words):
        refuse_left_out(done.topology, without_h2(done), done.desired, contents(done), done.reasons)


@pytest.mark.parametrize("pairs", [[DECODERS], [("count: 2\n    max", "count: 1\n    max")]])
def test_all_else_is(pairs: Iterable[tuple[str, str]]) -> None:
    done = edit(*pairs)
    refuse_left_out(done.topology, without_h2(done), done.desired, contents(done), done.reasons)
    whole = edit(COMMON[0])
    refuse_left_out(whole.topology, whole.plan, whole.desired, contents(whole), whole.reasons)


def test_a_host_that_never_had_engines_may_stay_out() -> None:
    placed = SPEC.replace("count: 2", "placement: [h1, h1]")
    joined = ("placement: [h1, h1]\n    max", "placement: [h1, h1, h2]\n    max")
    done = edit(joined, COMMON[0], spec=placed, earlier=placed)
    refuse_left_out(done.topology, without_h2(done), done.desired, contents(done), done.reasons)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Of some of them nobody knows how they are. `restarts` of those: they run as before."""
    counts = {"prefiller": draw(st.integers(1, 4)), "decoder": draw(st.integers(1, 5))}
    names = [f"{role}-{number}" for role, count in counts.items() for number in range(count)]
    states = st.sampled_from(("fine", "restarts", "restarts", "stopped", "crashed"))
    left = draw(st.lists(st.sampled_from(names), unique=True, max_size=2)) if draw(st.booleans()) else []
    return World(
        {name: draw(states) for name in names},
        proxy=draw(st.sampled_from(("fine", "fine", "restarts"))),
        stale=draw(st.booleans()),
        drained=tuple(sorted(left)),
        canary=draw(st.integers(0, 2)),
        max_unavailable=draw(st.sampled_from([1, 2, "50%", "100%"])),
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_whatever_runs_out_of_sight_no_request_is_lost_that_it_could_have_served(world: World) -> None:
    topology, desired = wanted(world.counts, world.stale, world.canary, world.max_unavailable)
    observed, texts = seen(world, topology, desired)
    visible = {key: row for key, row in observed.items() if key.host == "gpu01"}
    plan = make_plan(
        topology,
        desired,
        visible,
        visible,
        contents=texts,
        owed={key: debt for key, debt in debts(world, observed) if key.host == "gpu01"},
        unreachable={"gpu02": "no answer"},
    )
    cluster = cluster_of(world)
    cluster.mixed, cluster.unseen = True, frozenset(i.name for i in topology.instances if i.host == "gpu02")
    before = {name: cluster.engines[name].life for name in cluster.unseen}
    cluster.run(plan)
    assert before == {name: cluster.engines[name].life for name in cluster.unseen}
    assert not cluster.drained and not cluster.sides and cluster.proxy_up
    rest = [engine for name, engine in cluster.engines.items() if name not in cluster.unseen]
    assert all(engine.up and engine.new for engine in rest)


def contents(done: Edit) -> dict[Key, bytes]:
    return {
        key: row.content
        for key, row in done.observed.items()
        if key.host != "h2" and isinstance(row, File) and row.content and row != done.desired.get(key)
    }
