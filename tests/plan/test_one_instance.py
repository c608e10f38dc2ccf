"""An edit that is about one decoder touches no other instance, whatever the rest of the spec says."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.desired import desire
from pdctl.desired.layout import instance_of
from pdctl.plan import Plan, StepKind, make_plan
from pdctl.plan.restarts import stale_peers
from pdctl.state import File, Key, Unit
from pdctl.topology import Topology, resolve
from tests.topology import specs

ENGINES: tuple[Any, ...] = (
    "vllm",
    "simulator",
    {"kind": "simulator", "simulator": {"stale_peers": True}},
)


@st.composite
def placed(draw: st.DrawFn) -> dict[str, Any]:
    """Prefillers and decoders on two hosts at least, so that no decoder is the first on a second host."""
    prefillers, decoders = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    names = [f"gpu0{i}" for i in range(1, draw(st.integers(2, 4)) + 1)]
    return {
        "engine": draw(st.sampled_from(ENGINES)),
        "hosts": specs.hosts(len(names), 16),
        "serving": {
            "connector": draw(st.sampled_from(["lmcache", "nixl"])),
            "prefillers": {
                "placement": ["gpu01", *(draw(st.sampled_from(names)) for _ in range(prefillers))]
            },
            "decoders": {"placement": ["gpu02", *(draw(st.sampled_from(names)) for _ in range(decoders))]},
            "proxy": {"host": "gpu01"},
        },
    }


def plan_of(before: dict[str, Any], after: dict[str, Any]) -> tuple[Plan, Topology]:
    old, new = (resolve(specs.cluster(**spec)) for spec in (before, after))
    there = desire(old)
    contents = {key: r.content for key, r in there.items() if isinstance(r, File) and r.content}
    return make_plan(new, desire(new), there, there, contents=contents), new


def touched(plan: Plan) -> set[str]:
    """Instances that start, restart, end, or of which a file changes."""
    units = {c.key for c in plan.changes if c.key.id.startswith("unit:")}
    found = {instance(plan, key) for key in units} | {r.instance for r in plan.restarts}
    files = (c.key.id.rsplit("/", 1)[-1] for c in plan.changes if c.key.id.startswith("file:"))
    named = {instance_of(plan.cluster, name).split(".")[0] for name in files}
    return found | named - {f"pdctl-{plan.cluster}"}  # limits, apt's settings: the host's own


def instance(plan: Plan, key: Key) -> str:
    return instance_of(plan.cluster, key.id.removeprefix("unit:"))


@settings(max_examples=30, deadline=None)
@given(placed(), st.data())
def test_another_port_of_one_decoder_restarts_it_and_at_most_the_prefillers_that_knew_it(
    before: dict[str, Any], data: st.DataObject
) -> None:
    after = copy.deepcopy(before)
    decoders = after["serving"]["decoders"]["placement"]
    number = data.draw(st.integers(0, len(decoders) - 1))
    decoders[number] = {"host": decoders[number], "ports": {"http": 7999}}
    plan, topology = plan_of(before, after)
    name = f"decoder-{number}"
    prefillers = {i.name for i in topology.instances if i.name.startswith("prefiller")}
    allowed = {name, "proxy"} | (prefillers if stale_peers(topology) else set())
    assert name in touched(plan) and touched(plan) <= allowed
    assert "proxy" not in {r.instance for r in plan.restarts}
    drained = {n for step in plan.steps for n in step.drain}
    assert drained <= allowed and not any(step.kind is StepKind.DELETE for step in plan.steps)


@settings(max_examples=30, deadline=None)
@given(placed(), st.booleans())
def test_a_decoder_more_or_less_touches_only_itself_and_the_proxy_s_list(
    before: dict[str, Any], more: bool
) -> None:
    after = copy.deepcopy(before)
    decoders = after["serving"]["decoders"]["placement"]
    name = f"decoder-{len(decoders) - (not more)}"
    after["serving"]["decoders"]["placement"] = [*decoders, "gpu02"] if more else decoders[:-1]
    plan, _ = plan_of(before, after)
    assert name in touched(plan) <= {name, "proxy"}
    assert not plan.restarts
    assert [step.outage for step in plan.steps if step.outage] == []


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(2, 4), st.sampled_from(ENGINES), st.booleans())
def test_counts_that_pdctl_places_itself_move_nobody_else(
    prefillers: int, decoders: int, hosts: int, engine: Any, more: bool
) -> None:
    def spec(count: int) -> dict[str, Any]:
        serving = specs.serving(prefillers, count, 1) | {"proxy": {"host": "gpu01"}}
        return {"engine": engine, "hosts": specs.hosts(hosts, 16), "serving": serving}

    pair = (spec(decoders), spec(decoders + 1))
    plan, _ = plan_of(*(pair if more else pair[::-1]))
    assert touched(plan) <= {f"decoder-{decoders}", "proxy"} and not plan.restarts


def test_one_decoder_s_rows_are_the_only_units_in_its_steps() -> None:
    before = {
        "hosts": specs.hosts(2),
        "engine": "simulator",
        "serving": specs.serving(2, 3, 1) | {"proxy": {"host": "gpu01"}},
    }
    topology = resolve(specs.cluster(**before))
    there = dict(desire(topology))
    key, unit = next((k, r) for k, r in there.items() if isinstance(r, Unit) and r.instance == "decoder-1")
    old = {**there, key: Unit(unit.name, revision="r0", invocation="i1")}
    plan = make_plan(topology, there, old, old)
    assert [step.name for step in plan.steps] == ["drain_1", "restart_1", "undrain"]
    assert plan.steps[1].keys == (key,) and plan.steps[0].drain == ("decoder-1",) == plan.steps[2].undrain
