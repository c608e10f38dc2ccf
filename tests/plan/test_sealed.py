"""A kept plan is carried out exactly, or refused with what is another."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pdctl.errors import ApplyError
from pdctl.plan import make_plan
from pdctl.plan.document import plan_document
from pdctl.plan.sealed import Saved, refuse_other, sealed, unsealed
from pdctl.plan.targets import World
from pdctl.state import Key, Unit
from tests.plan.changes import edit

ABOUT = {"path": "cluster.yaml", "digest": "sha256:1"}
DONE = edit(("max_num_seqs: 64", "max_num_seqs: 128"))
WORLD = World(DONE.desired, DONE.observed, DONE.observed)
UNIT = Key("h2", "unit:pdctl-chat-decoder-0.service")
FILE = Key("h1", "file:/etc/pdctl/chat/proxy.json")


def document(world: World) -> dict[str, Any]:
    return plan_document(make_plan(DONE.topology, world.desired, world.observed, world.recorded))


def kept(world: World = WORLD) -> dict[str, Any]:
    made = sealed(document(world), world, world.keys, ABOUT, "0.2")
    found: dict[str, Any] = json.loads(json.dumps(made))
    return found


def saved() -> Saved:
    return unsealed(kept(), "plan.json")


def refusal(world: World) -> str:
    with pytest.raises(ApplyError) as error:
        refuse_other(saved(), document(world), world, world.keys)
    assert error.value.hint == "make a new one: pdctl diff --out plan.json"
    return error.value.message


def test_the_same_hosts_are_as_planned() -> None:
    refuse_other(saved(), document(WORLD), WORLD, WORLD.keys)


def moved(change: Callable[[Unit], Unit]) -> World:
    unit = WORLD.observed[UNIT]
    assert isinstance(unit, Unit)
    return replace(WORLD, observed={**WORLD.observed, UNIT: change(unit)})


@pytest.mark.parametrize(
    "change",
    [
        lambda unit: replace(unit, invocation="i2"),
        lambda unit: replace(unit, active="failed"),
        lambda unit: replace(unit, deviations=("argv differs",)),
    ],
)
def test_what_moved_is_named(change: Callable[[Unit], Unit]) -> None:
    said = refusal(moved(change))
    assert said == f"the hosts are not as they were when it was made: h2 {UNIT.id.replace(':', ' ')}"


def test_a_host_that_is_gone_or_new_is_named() -> None:
    one = World(
        {k: r for k, r in WORLD.desired.items() if k.host == "h1"},
        {k: r for k, r in WORLD.observed.items() if k.host == "h1"},
        {k: r for k, r in WORLD.recorded.items() if k.host == "h1"},
    )
    assert refusal(one).endswith("h2 cannot be looked at")
    small = unsealed(kept(one), "plan.json")
    with pytest.raises(ApplyError, match="h2 was left out then"):
        refuse_other(small, document(WORLD), WORLD, WORLD.keys)


def test_many_that_moved_are_counted() -> None:
    world = replace(WORLD, recorded={})
    assert refusal(world).endswith(" more") and refusal(world).count(";") == 5


def test_other_secrets_are_another_plan() -> None:
    world = replace(WORLD, desired={**WORLD.desired, FILE: replace(WORLD.desired[FILE], digest="sha256:9")})
    assert "what pdctl makes of the spec" in refusal(world)


def test_another_order_is_another_plan() -> None:
    other = document(WORLD)
    other["steps"] = other["steps"][1:]
    with pytest.raises(ApplyError, match="is not what was planned"):
        refuse_other(saved(), other, WORLD, WORLD.keys)


def test_times_and_reasons_may_be_others() -> None:
    other = document(WORLD) | {"fields": [{"text": "x"}], "since": "generation 9"}
    refuse_other(saved(), other, WORLD, WORLD.keys)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda plan: plan["changes"].pop(), "was changed after pdctl wrote it"),
        (lambda plan: plan["sealed"]["spec"].update(path="/other"), "was changed after pdctl wrote it"),
        (lambda plan: plan.update(format="pdctl-plan/9"), "another version of pdctl (pdctl-plan/9"),
        (lambda plan: plan.pop("sealed"), "only to be read"),
        (lambda plan: plan.update(format="pdctl-status/1"), "is no plan of pdctl"),
    ],
)
def test_what_is_no_whole_plan_of_this_version_is_refused(
    spoil: Callable[[dict[str, Any]], Any], message: str
) -> None:
    plan = kept()
    spoil(plan)
    with pytest.raises(ApplyError) as error:
        unsealed(plan, "plan.json")
    assert message in error.value.message and error.value.where == "plan.json"


@pytest.mark.parametrize("data", [None, [], "text", 7, {}])
def test_other_json_is_no_plan(data: Any) -> None:
    with pytest.raises(ApplyError, match="is no plan of pdctl"):
        unsealed(data, "plan.json")
