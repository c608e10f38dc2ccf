"""What the playbooks are told: only what the plan says, and what each host lacks."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pdctl.apply.removal import removal_variables
from pdctl.apply.requests import Meta, Order, Supply, groups, host_variables
from pdctl.desired import desire
from pdctl.plan import Owed, make_plan
from pdctl.plan.model import Step, StepKind
from pdctl.state import Key, State, Unit, Venv, Weights
from pdctl.topology import resolve
from tests.examples import desired, topology
from tests.topology import specs

META = Meta("2026-01-01T00:00:00+00:00", "me@here", "0.1.0", "abc")


def supply(state: State) -> Supply:
    wheels = {
        word.removeprefix("--hash="): f"wheels/{line.split()[0]}-py{venv.python}.whl"
        for venv in state.values()
        if isinstance(venv, Venv)
        for line in venv.requirements
        for word in line.split()[1:]
    }
    debs = {"libnuma1": "debs/libnuma1.deb"}
    sizes = dict.fromkeys([*wheels.values(), *debs.values(), "wheels/uv.whl"], 10)
    models = {f"models/tiny/{n}": 10 for n in ("config.json", "generation_config.json", "model.safetensors")}
    models |= {f"models/tiny/{n}": 10 for n in ("tokenizer.json", "tokenizer_config.json")}
    return Supply(wheels, debs, sizes | models, "/bundle", "wheels/uv.whl")


def order(
    name: str, present: dict[str, dict[str, int]] | None = None, observed: State | None = None
) -> Order:
    state = desired(name)
    plan = make_plan(topology(name), state, observed or {}, {})
    return Order(plan, state, observed or {}, META, supply(state), present or {}, Path("/spec"))


def decoded(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(text))
    return found


def test_only_a_consent_lets_packages_become_older() -> None:
    asked = order("lab")
    for consent in (False, True):
        variables = host_variables(replace(asked, downgrades=consent))
        put = decoded(variables["h2"]["pdctl_put"])
        assert put.get("allow_downgrades", False) is consent


def test_each_host_gets_its_own_rows_in_the_order_they_need_each_other() -> None:
    variables = host_variables(order("lab"))
    put = decoded(variables["h2"]["pdctl_put"])
    kinds = [row["kind"] for row in put["put"]]
    assert kinds == sorted(kinds, key=["user", "directory", "file", "package", "venv"].index)
    assert put["record"] == "/var/lib/pdctl/demo/record.json" and put["meta"]["by"] == "me@here"
    [unit] = decoded(variables["h2"]["pdctl_decoder"])["units"]
    assert unit["name"] == "pdctl-demo-decoder-0.service" and "pdctl_prefiller" not in variables["h2"]


def test_groups_name_the_hosts_with_work_in_a_step() -> None:
    asked = order("lab")
    found = groups(host_variables(asked), asked.plan)
    assert found == {
        "pdctl_put": ["h1", "h2"],
        "pdctl_decoder": ["h2"],
        "pdctl_prefiller": ["h1"],
        "pdctl_proxy": ["h1"],
    }


def test_only_files_that_a_host_lacks_are_sent() -> None:
    everything = host_variables(order("lab"))["h2"]["pdctl_wheels"]
    assert "wheels/uv.whl" in everything and "debs/libnuma1.deb" in everything
    present = {"h2": dict.fromkeys(everything, 10)}
    assert host_variables(order("lab", present))["h2"]["pdctl_wheels"] == []
    present["h2"]["wheels/uv.whl"] = 9
    assert host_variables(order("lab", present))["h2"]["pdctl_wheels"] == ["wheels/uv.whl"]


def test_each_host_gets_the_wheels_of_its_own_python() -> None:
    hosts = [
        {"name": "h1", "address": "10.0.0.1", "os": "ubuntu-22.04"},
        {"name": "h2", "address": "10.0.0.2"},
    ]
    cluster = resolve(specs.cluster(engine="simulator", hosts=hosts))
    state = desire(cluster)
    plan = make_plan(cluster, state, {}, {})
    sent = host_variables(Order(plan, state, {}, META, supply(state), {}, Path("/spec")))
    built = {
        host: {f for f in v["pdctl_wheels"] if f.startswith("wheels/aiohttp==")} for host, v in sent.items()
    }
    assert [len(files) for files in built.values()] == [1, 1]
    assert all(f.endswith("-py3.10.whl") for f in built["h1"])
    assert all(f.endswith("-py3.11.whl") for f in built["h2"])


def test_a_runtime_without_a_bundle_still_needs_the_installer() -> None:
    sent = host_variables(order("hgx-h100-article"))["gpu01"]["pdctl_wheels"]
    assert "wheels/uv.whl" in sent


@pytest.mark.parametrize("name", ["lab", "hgx-h100-article"])
def test_no_plain_text_of_a_request_can_be_read_as_a_template(name: str) -> None:
    for per_host in host_variables(order(name)).values():
        assert all("{" not in v for k, v in per_host.items() if k.startswith("pdctl_") and isinstance(v, str))


def test_removal_takes_the_proxy_first_and_then_everything_recorded() -> None:
    state = desired("lab")
    asked = Order(
        make_plan(topology("lab"), {}, state, state),
        {},
        state,
        META,
        Supply({}, {}, {}, ""),
        {},
        Path("/spec"),
    )
    variables = removal_variables(asked)
    assert decoded(variables["h1"]["pdctl_proxy"])["delete"] == ["unit:pdctl-demo-proxy.service"]
    assert decoded(variables["h2"]["pdctl_decoder"])["delete"] == ["unit:pdctl-demo-decoder-0.service"]
    assert decoded(variables["h1"]["pdctl_delete"])["everything"] is True


def test_a_unit_that_makes_room_for_now_is_halted_and_one_that_left_is_deleted() -> None:
    asked = order("lab")
    here = next(key for key, r in asked.desired.items() if isinstance(r, Unit) and key.host == "h2")
    left = Key("h2", "unit:pdctl-demo-decoder-9.service")
    plan = replace(asked.plan, steps=(Step("stop", "Stop what makes room", (left, here), StepKind.STOP),))
    request = decoded(host_variables(replace(asked, plan=plan))["h2"]["pdctl_stop"])
    assert request["halt"] == [here.id.removeprefix("unit:")]
    assert [row["id"] for row in request["delete"]] == [left.id]


def test_a_drain_step_asks_the_proxy_s_host_with_lease_and_patience() -> None:
    asked = order("lab")
    proxy = next(key for key in asked.desired if key.id.endswith("-proxy.service") and "unit:" in key.id)
    step = Step("drain_1", "Drain", (proxy,), StepKind.DRAIN, ("decoder-0",), ("decoder-1",), ("decoder-1",))
    plan = replace(asked.plan, steps=(step,))
    variables = host_variables(replace(asked, plan=plan, lease_s=30.0, drain_timeout_s=9))
    assert list(variables) == [proxy.host]
    request = decoded(variables[proxy.host]["pdctl_drain_1"])
    assert request["control"] == "/run/pdctl/demo/proxy/control.sock"
    assert (request["drain"], request["undrain"], request["sides"]) == (["decoder-0"], *[["decoder-1"]] * 2)
    assert (request["lease_s"], request["timeout_s"], request["reload"]) == (30.0, 9, False)


def test_restarts_owed_are_written_down_first_also_where_nothing_is_put() -> None:
    asked = order("lab")
    units = [key for key, resource in asked.desired.items() if isinstance(resource, Unit)]
    [prefiller] = [key for key in units if "prefiller" in key.id]
    only = tuple(step for step in asked.plan.steps if step.name == "prefiller")
    debts = (Owed(prefiller, "i1", causes=("a",)), Owed(prefiller, "i1", peers=("b.service",)))
    plan = replace(asked.plan, steps=only, owed=debts)
    variables = host_variables(replace(asked, plan=plan))
    put = decoded(variables["h1"]["pdctl_put"])
    assert put["put"] == []
    assert put["owed"] == {prefiller.id: {"invocation": "i1", "causes": ["a"], "peers": ["b.service"]}}
    assert groups(variables, plan) == {"pdctl_put": ["h1"], "pdctl_prefiller": ["h1"]}


def test_what_only_has_to_be_recorded_is_asked_for_without_its_files() -> None:
    """The record is lost, nothing else: no wheel is collected for it, so none can be named."""
    state = desired("lab")
    plan = make_plan(topology("lab"), state, state, {})
    nothing = Supply({}, {}, {}, "/bundle")
    variables = host_variables(Order(plan, state, state, META, nothing, {}, Path("/spec")))
    assert not plan.changes and {row["kind"] for row in decoded(variables["h2"]["pdctl_put"])["put"]} >= {
        "venv"
    }
    assert variables["h2"]["pdctl_wheels"] == [] and "pdctl_decoder" in variables["h2"]


def test_weights_are_asked_for_by_a_task_of_their_own_with_what_the_bundle_knows_of_them() -> None:
    found = order("two-hosts-xpyd")
    row = next(each for each in found.desired.values() if isinstance(each, Weights))
    told = replace(found, supply=replace(found.supply, manifests={(row.repo, row.revision): "{}"}))
    for variables in host_variables(told).values():
        rows = [each for each in decoded(variables["pdctl_put"])["put"] if each["kind"] == "weights"]
        assert variables["pdctl_weights"] is True
        assert [(each["repo"], each["manifest"]) for each in rows] == [(row.repo, "{}")]
    again = order("two-hosts-xpyd", observed=found.desired)
    assert not any("pdctl_weights" in variables for variables in host_variables(again).values())
