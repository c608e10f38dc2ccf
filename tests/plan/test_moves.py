"""Instances and the proxy that go to another host: what serves meanwhile, and what the plan says is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ruamel.yaml import YAML

from pdctl.apply.playbook import playbook
from pdctl.plan import Plan, make_plan
from pdctl.plan.radius import Radius, radius
from pdctl.state import File, State, Unit
from tests.plan.changes import SPEC, Edit, edit

PLACED = SPEC.replace("    count: 2\n    max_num_seqs", "    placement: [h1, h2]\n    max_num_seqs").replace(
    "  lmcache: {chunk_size: 32}\n", "  connector: nixl\n  proxy: {host: h1}\n"
)
MOVED = ("proxy: {host: h1}", "proxy: {host: h2}")
SWAPPED = ("placement: [h1, h2]", "placement: [h2, h1]")


def steps(plan: Plan) -> dict[str, list[str]]:
    """The instances that each step stops, starts or removes."""
    return {
        step.name: [
            f"{key.host} {key.id.removeprefix('unit:pdctl-chat-').removesuffix('.service')}"
            for key in step.keys
            if key.id.startswith("unit:")
        ]
        for step in plan.steps
    }


def outages(plan: Plan) -> dict[str, str]:
    return {step.name: step.outage for step in plan.steps if step.outage}


def of(found: Edit) -> Radius:
    return radius(found.topology, found.plan, found.observed)


def test_a_proxy_that_moves_starts_before_the_old_one_ends_and_clients_are_told_the_address() -> None:
    found = edit(MOVED, spec=PLACED)
    assert steps(found.plan) == {"put": [], "proxy": ["h2 proxy"], "delete": ["h1 proxy"]}
    assert outages(found.plan) == {
        "delete": "clients have to use http://198.18.0.11:9100 by then: "
        "the proxy on h1 ends, with what it works on"
    }
    assert "prefillers and decoders keep running" in list(of(found)._service())


def test_an_old_proxy_that_moves_stays_where_the_host_of_the_new_one_fails() -> None:
    """`Put files` fails on h2 alone: with nobody to start there, h1 must not go on to remove the old one."""
    first, *_ = YAML(typ="safe").load(playbook(edit(MOVED, spec=PLACED).plan.steps))
    assert first["hosts"] == "pdctl_put" and first["any_errors_fatal"] is True


def test_an_old_proxy_makes_room_first_where_an_engine_gets_its_port() -> None:
    taken = ("placement: [h1, h2]", "placement: [{host: h1, ports: {http: 9100}}, h2]")
    found = edit(MOVED, taken, spec=PLACED)
    observed = {
        key: replace(row, ports=(9100,)) if isinstance(row, Unit) and row.role == "proxy" else row
        for key, row in found.observed.items()
    }
    plan = again(found, observed)
    assert steps(plan)["stop"] == ["h1 proxy"]
    assert "no request is taken until the proxy on h2 is up" in outages(plan)["stop"]


def test_engines_that_restart_for_a_proxy_that_moves_are_said_to_lose_their_work() -> None:
    found = edit(MOVED, spec=PLACED.replace("connector: nixl", "connector: lmcache"))
    assert steps(found.plan)["prefiller"] == ["h1 prefiller-0", "h2 prefiller-1"]
    assert "until the proxy on h2 is up" in outages(found.plan)["prefiller"]
    assert list(steps(found.plan))[-1] == "delete"


def again(found: Edit, observed: State, unreachable: Mapping[str, str] | None = None) -> Plan:
    contents = {key: row.content for key, row in observed.items() if isinstance(row, File) and row.content}
    return make_plan(
        found.topology, found.desired, observed, observed, contents=contents, unreachable=unreachable
    )


def test_engines_that_restart_while_the_proxy_s_host_is_left_out_are_said_to_restart_undrained() -> None:
    found = edit(("max_num_seqs: 64", "max_num_seqs: 32"), spec=PLACED)
    seen = {key: row for key, row in found.observed.items() if key.host != "h1"}
    plan = again(found, seen, unreachable={"h1": "no answer"})
    assert steps(plan) == {"restart_1": ["h2 decoder-1"]}
    assert outages(plan) == {
        "restart_1": "h1 with the proxy was left out: decoder-1 cannot be drained, requests fail"
    }
    assert not any(
        "keep serving" in words for words in radius(found.topology, plan, found.observed)._service()
    )


def test_decoders_that_change_places_are_drained_if_one_stays_else_said_to_lose_their_work() -> None:
    lost = "what decoder-0 and decoder-1 work on fails, and nothing is answered until they are back"
    found = edit(SWAPPED, spec=PLACED)
    assert outages(found.plan) == {"stop": f"no other decoder serves: {lost}"}
    assert list(of(found)._service()) == [
        f"no other decoder serves: {lost}",
        "prefillers and the proxy keep running",
    ]
    more = PLACED.replace("[h1, h2]", "[h1, h2, h2]")
    found = edit(("[h1, h2, h2]", "[h2, h1, h2]"), spec=more)
    assert [s.drain for s in found.plan.steps if s.name == "room"] == [("decoder-0", "decoder-1")]
    assert not outages(found.plan)


def test_both_roles_that_change_places_are_named_both() -> None:
    both = PLACED.replace("prefillers:\n    count: 2", "prefillers:\n    placement: [h1, h2]")
    prefills = ("prefillers:\n    placement: [h1, h2]", "prefillers:\n    placement: [h2, h1]")
    stop = outages(edit(prefills, SWAPPED, spec=both).plan)["stop"]
    assert "no other prefiller serves: what prefiller-0 and prefiller-1" in stop
    assert "no other decoder serves: what decoder-0 and decoder-1" in stop


def test_an_old_proxy_that_a_cut_off_apply_left_behind_is_removed_and_not_drained() -> None:
    found = edit(MOVED, spec=PLACED)
    old = {key: row for key, row in found.observed.items() if key not in found.desired}
    plan = again(found, {**found.desired, **old})
    assert steps(plan) == {"delete": ["h1 proxy"]}
    assert "the proxy on h1 ends" in outages(plan)["delete"]
