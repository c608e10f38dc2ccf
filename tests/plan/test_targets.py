"""A target touches what it names and what depends on it, tells these, and leaves everything else alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pdctl.errors import ApplyError
from pdctl.plan import Action, Plan, make_plan
from pdctl.plan.agreement import refuse_split
from pdctl.plan.dependents import select
from pdctl.plan.targets import Selection, Targets, World, hosts_named, narrowed
from pdctl.state import File, Key, Resource, Unit, Venv
from pdctl.topology import Topology
from tests.plan.changes import SPEC, Edit, edit

SEQS = ("max_num_seqs: 64", "max_num_seqs: 128")
MORE = ("count: 2\n    max", "count: 3\n    max")
LESS = ("count: 2\n  decoders", "count: 1\n  decoders")
STALE = SPEC.replace("engine: simulator", "engine: {kind: simulator, simulator: {stale_peers: true}}")


def world_of(done: Edit, **changes: Mapping[Key, Resource]) -> World:
    observed = {**done.observed, **changes.get("observed", {})}
    contents = {k: r.content for k, r in observed.items() if isinstance(r, File) and r.content}
    differing = {k: c for k, c in contents.items() if getattr(done.desired.get(k), "content", c) != c}
    return World(done.desired, observed, {**done.observed, **changes.get("recorded", {})}, differing)


def planned(topology: Topology, world: World) -> Plan:
    return make_plan(
        topology,
        world.desired,
        world.observed,
        world.recorded,
        contents=world.contents,
        pending=world.pending,
        owed=world.owed,
    )


def chosen(done: Edit, world: World | None = None, **targets: str) -> tuple[Selection, Plan]:
    """What the targets select, and the plan of it. `targets`: hosts, roles, instances, layers, in words."""
    seen = world or world_of(done)
    asked = Targets(**{name: tuple(words.split()) for name, words in targets.items()})
    selection = select(done.topology, seen, asked, lambda part: planned(done.topology, part))
    return selection, planned(done.topology, narrowed(seen, selection.keys))


def touched(plan: Plan) -> set[str]:
    """The ends of all ids in it: `decoder-0.env`."""
    return {change.key.id.split("/")[-1].removeprefix("unit:pdctl-chat-") for change in plan.changes}


def pulled(selection: Selection) -> set[tuple[str, str]]:
    return {(row.instance, row.because) for row in selection.pulled}


def test_one_instance_is_changed_and_the_others_are_not() -> None:
    selection, plan = chosen(edit(SEQS, ("WARN", "INFO")), instances="decoder-1")
    assert touched(plan) == {"decoder-1.env", "pdctl-chat-decoder-1.service", "decoder-1.service"}
    assert [restart.instance for restart in plan.restarts] == ["decoder-1"] and selection.pulled == ()


def test_what_is_left_out_is_neither_drift_nor_restart_nor_step() -> None:
    done = edit(SEQS)
    sick = {
        key: replace(row, deviations=("argv differs",), invocation="i2")
        for key, row in done.observed.items()
        if isinstance(row, Unit) and row.name.endswith("prefiller-0.service")
    }
    _, plan = chosen(done, world_of(done, observed=sick), instances="decoder-1")
    assert not plan.drift and [restart.instance for restart in plan.restarts] == ["decoder-1"]
    keys = {key for step in plan.steps for key in step.keys}
    assert all("decoder-1" in key.id or "proxy" in key.id for key in keys)


def test_kinds_of_targets_narrow_one_another_and_names_of_one_kind_add_up() -> None:
    done = edit(SEQS)
    _, both = chosen(done, instances="decoder-0 decoder-1")
    _, one = chosen(done, roles="decoder", hosts="h2")
    assert {r.instance for r in both.restarts} == {"decoder-0", "decoder-1"}
    assert {r.instance for r in one.restarts} == {"decoder-0"}


@pytest.mark.parametrize(
    ("targets", "message", "hint"),
    [
        ({"hosts": "h9"}, "there is no host `h9`", "there are: h1, h2"),
        ({"roles": "server"}, "there is no role `server`", "there are: prefiller, decoder, proxy"),
        (
            {"instances": "decoder-7"},
            "there is no instance `decoder-7`",
            "there are: decoder-0, decoder-1, prefiller-0, prefiller-1, proxy",
        ),
        (
            {"layers": "files"},
            "there is no layer `files`",
            "there are: base, packages, runtime, model, config, units",
        ),
        (
            {"hosts": "h1", "instances": "decoder-0"},
            "`--host h1 --instance decoder-0` names nothing",
            "there are: decoder-0, decoder-1, prefiller-0, prefiller-1, proxy",
        ),
    ],
)
def test_names_that_nothing_has_are_refused_with_those_that_there_are(
    targets: dict[str, str], message: str, hint: str
) -> None:
    with pytest.raises(ApplyError) as error:
        chosen(edit(SEQS), **targets)
    assert (error.value.message, error.value.hint) == (message, hint)


def test_prefillers_with_stale_peers_come_along_with_a_decoder() -> None:
    selection, plan = chosen(edit(SEQS, spec=STALE, earlier=STALE), instances="decoder-1")
    because = "LMCache never renews a peer, and decoder-1 restarts"
    assert pulled(selection) == {("prefiller-0", because), ("prefiller-1", because)}
    assert {r.instance for r in plan.restarts} == {"decoder-1", "prefiller-0", "prefiller-1"}


def test_a_prefiller_takes_no_decoder_along() -> None:
    selection, plan = chosen(edit(SEQS, spec=STALE, earlier=STALE), roles="prefiller")
    assert plan.empty and selection.pulled == ()


def test_the_proxy_comes_along_when_its_list_tells_of_the_instance() -> None:
    selection, plan = chosen(edit(MORE), instances="decoder-2")
    assert pulled(selection) == {("proxy", "its list tells of decoder-2")}
    assert "proxy.json" in touched(plan) and "decoder-2.service" in touched(plan)


def test_the_proxys_list_takes_along_all_that_it_newly_tells_of() -> None:
    selection, plan = chosen(edit(MORE, LESS), instances="proxy")
    because = "the proxy's new list tells of it"
    assert pulled(selection) == {("decoder-2", because), ("prefiller-1", because)}
    assert {c.action for c in plan.changes if "prefiller-1" in c.key.id} == {Action.DELETE}


def test_a_first_apply_of_one_role_brings_what_it_needs_and_no_proxy() -> None:
    done = edit()
    selection, plan = chosen(done, World(done.desired, {}, {}), instances="decoder-0")
    assert {c.key.host for c in plan.changes} == {"h2"}
    kinds = {c.key.id.split(":")[0] for c in plan.changes}
    assert kinds == {"user", "directory", "file", "venv", "unit"}
    assert {row.because for row in selection.pulled} == {
        "decoder-0 is started from it",
        "the host lacks it",
    }


def test_a_runtime_that_another_unit_may_use_is_held_back() -> None:
    done = edit()
    old = {
        Key(host, "venv:/opt/pdctl/venvs/simulator-000000000000"): Venv(
            "/opt/pdctl/venvs/simulator-000000000000", "0" * 16, "3.11"
        )
        for host in ("h1", "h2")
    }
    stale = {
        key: replace(row, revision="older") if isinstance(row, Unit) and "proxy" not in row.name else row
        for key, row in done.observed.items()
    }
    seen = world_of(done, observed={**stale, **old}, recorded={**stale, **old})
    _, one = chosen(done, seen, instances="decoder-1")
    assert not [c for c in one.changes if c.action is Action.DELETE]
    selection, layer = chosen(done, seen, layers="runtime")
    assert layer.empty and {row.because for row in selection.held} == {
        "decoder-0 may still use it",
        "decoder-1 may still use it",
    }
    _, host = chosen(done, seen, hosts="h2")
    assert [c.key.host for c in host.changes if c.action is Action.DELETE] == ["h2"]


def test_configuration_alone_restarts_nothing_and_keeps_files_of_what_still_runs() -> None:
    selection, plan = chosen(edit(SEQS, LESS), layers="config")
    assert not plan.restarts and not [c for c in plan.changes if c.action is Action.DELETE]
    assert {row.because for row in selection.held} == {"prefiller-1 still runs"}


def test_an_instance_that_left_the_spec_goes_whole_and_first_leaves_the_proxys_list() -> None:
    selection, plan = chosen(edit(LESS, SEQS), instances="prefiller-1")
    assert pulled(selection) == {("proxy", "its list tells of prefiller-1")}
    gone = {c.key.id.split("/")[-1] for c in plan.changes if c.action is Action.DELETE}
    assert gone == {
        "prefiller-1.env",
        "prefiller-1.lmcache.yaml",
        "pdctl-chat-prefiller-1.service",
        "unit:pdctl-chat-prefiller-1.service",
    }


def test_a_file_that_is_left_out_has_the_content_that_it_has() -> None:
    done = edit(MORE, SEQS)
    seen = world_of(done)
    selection, _ = chosen(done, seen, instances="decoder-1")
    file = Key("h1", "file:/etc/pdctl/chat/proxy.json")
    assert file not in selection.keys
    assert narrowed(seen, selection.keys).desired[file].content == seen.contents[file]  # type: ignore[union-attr]


def test_what_both_sides_must_agree_on_is_not_changed_on_one_of_them() -> None:
    done = edit(("chunk_size: 32", "chunk_size: 64"))
    selection, _ = chosen(done, instances="decoder-1")
    with pytest.raises(ApplyError) as error:
        refuse_split("chat", selection, world_of(done), done.reasons)
    assert error.value.where == "cluster.yaml:14" and "must agree on it" in error.value.message
    everything, _ = chosen(done, hosts="h1 h2")
    refuse_split("chat", everything, world_of(done), done.reasons)


@pytest.mark.parametrize("more", [{}, {"instances": "decoder-1"}])
def test_nor_put_as_files_alone_below_what_goes_on(more: dict[str, str]) -> None:
    done = edit(("chunk_size: 32", "chunk_size: 64"))
    selection, plan = chosen(done, layers="config", **more)
    assert plan.changes and not plan.restarts
    with pytest.raises(ApplyError, match=r"agree on it, and only the files of decoder-\d would change"):
        refuse_split("chat", selection, world_of(done), done.reasons)


@pytest.mark.parametrize(
    ("targets", "hosts"),
    [
        (Targets(hosts=("h1",)), {"h1"}),
        (Targets(instances=("decoder-0",)), {"h2"}),
        (Targets(roles=("proxy",)), {"h1"}),
        (Targets(roles=("decoder",)), {"h1", "h2"}),
        (Targets(hosts=("h1",), instances=("decoder-0",)), set()),
        (Targets(instances=("decoder-9",)), {"h1", "h2"}),  # it left the spec: nobody knows where it was
        (Targets(layers=("runtime",)), {"h1", "h2"}),
    ],
)
def test_targets_are_about_the_hosts_on_which_they_may_name_something(
    targets: Targets, hosts: set[str]
) -> None:
    assert hosts_named(edit().topology, targets) == hosts
