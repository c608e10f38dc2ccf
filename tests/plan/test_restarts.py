"""Which processes a plan restarts, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pdctl.plan import Plan, make_plan
from pdctl.state import File, Key, Resource, Unit
from pdctl.topology import Topology, resolve
from tests.topology.specs import cluster, hosts, serving

H = "gpu01"


def unit(name: str, role: str, revision: str = "r1", **more: Any) -> Unit:
    return Unit(
        f"pdctl-chat-{name}.service", revision=revision, instance=name, role=role, invocation="i1", **more
    )


def files_and_units(revision: str = "r1") -> dict[Key, Resource]:
    rows: list[Resource] = [
        File("/etc/pdctl/chat/decoder-0.env", "sha256:1", content=b"A=1\n"),
        unit("decoder-0", "decoder", revision, inputs=("file:/etc/pdctl/chat/decoder-0.env",)),
        unit("prefiller-0", "prefiller"),
        unit("proxy", "proxy"),
    ]
    return {Key(H, r.id): r for r in rows}


def key(name: str) -> Key:
    return Key(H, f"unit:pdctl-chat-{name}.service")


def real() -> Topology:
    return resolve(cluster(hosts=hosts(1), serving=serving(1, 1, 1)))


def simulated() -> Topology:
    return resolve(cluster(hosts=hosts(1), engine="simulator", serving=serving(1, 1, 1)))


def without_peers() -> Topology:
    """vLLM's own connector asks anew for each request."""
    return resolve(cluster(hosts=hosts(1), serving=serving(1, 1, 1, "nixl")))


def plan(topology: Topology, desired: dict[Key, Resource], observed: dict[Key, Resource]) -> Plan:
    return make_plan(topology, desired, observed, files_and_units())


def test_nothing_differs_nothing_to_do() -> None:
    done = plan(real(), files_and_units(), files_and_units())
    assert done.empty and not done.steps


def test_a_changed_decoder_names_the_file_and_takes_its_prefillers_along() -> None:
    desired = files_and_units("r2")
    file = Key(H, "file:/etc/pdctl/chat/decoder-0.env")
    desired[file] = File("/etc/pdctl/chat/decoder-0.env", "sha256:2", content=b"A=2\n")
    done = plan(real(), desired, files_and_units())
    causes = {r.instance: r.causes for r in done.restarts}
    assert causes["decoder-0"] == ("/etc/pdctl/chat/decoder-0.env",)
    assert "decoder-0 restarts" in causes["prefiller-0"][0] and "proxy" not in causes
    assert [s.name for s in done.steps] == ["restart_1", "restart_2"]
    assert done.steps[0].keys == (file, Key(H, "unit:pdctl-chat-decoder-0.service"))


def test_without_stale_peers_only_the_decoder_restarts() -> None:
    done = plan(without_peers(), files_and_units("r2"), files_and_units())
    assert [r.instance for r in done.restarts] == ["decoder-0"]


@pytest.mark.parametrize(
    ("stale", "restarted"), [(False, ["decoder-0"]), (True, ["decoder-0", "prefiller-0"])]
)
def test_the_simulator_keeps_stale_peers_only_when_told_to(stale: bool, restarted: list[str]) -> None:
    engine = {"kind": "simulator", "simulator": {"stale_peers": stale}}
    topology = resolve(cluster(hosts=hosts(1), engine=engine, serving=serving(1, 1, 1)))
    done = plan(topology, files_and_units("r2"), files_and_units())
    assert [r.instance for r in done.restarts] == restarted


@pytest.mark.parametrize("active", ["inactive", "failed", "activating/auto-restart"])
def test_a_stopped_decoder_is_started_and_is_drift(active: str) -> None:
    observed = files_and_units()
    observed[key("decoder-0")] = unit("decoder-0", "decoder", "", active=active)
    done = plan(without_peers(), files_and_units(), observed)
    assert [c.key for c in done.changes] == [key("decoder-0")] and done.changes[0].drift
    assert done.changes[0].why == (f"active {active} -> active",)
    assert not done.restarts and [s.name for s in done.steps] == ["decoder"]


def test_a_restart_outside_pdctl_is_drift_that_only_the_record_must_learn() -> None:
    observed = files_and_units()
    observed[key("proxy")] = replace(unit("proxy", "proxy"), invocation="i2")
    done = plan(without_peers(), files_and_units(), observed)
    assert not done.changes and not done.restarts and not done.empty
    assert [(d.key, d.what) for d in done.drift] == [
        (key("proxy"), ("restarted outside pdctl since the last apply",))
    ]
    assert [s.keys for s in done.steps] == [(key("proxy"),)]


def test_a_decoder_restarted_outside_leaves_its_prefillers_with_stale_peers() -> None:
    observed = files_and_units()
    observed[key("decoder-0")] = replace(unit("decoder-0", "decoder"), invocation="i2")
    done = plan(real(), files_and_units(), observed)
    assert [r.instance for r in done.restarts] == ["prefiller-0"]


def test_a_file_edited_and_repaired_restarts_only_a_process_started_in_between() -> None:
    edited = files_and_units()
    file = Key(H, "file:/etc/pdctl/chat/decoder-0.env")
    edited[file] = File("/etc/pdctl/chat/decoder-0.env", "sha256:9")
    assert not plan(without_peers(), files_and_units(), edited).restarts
    edited[key("decoder-0")] = replace(edited[key("decoder-0")], invocation="i2")  # type: ignore[arg-type]
    [restart] = plan(without_peers(), files_and_units(), edited).restarts
    assert restart.causes == ("was started with the edited /etc/pdctl/chat/decoder-0.env",)


def edited_unit_file(**changes: Any) -> Plan:
    """decoder-0's unit file was edited; `changes` are those of its unit."""
    unit_file = Key(H, "file:/etc/systemd/system/pdctl-chat-decoder-0.service")
    recorded = {**files_and_units(), unit_file: File(unit_file.id[5:], "sha256:1")}
    observed = {**recorded, unit_file: File(unit_file.id[5:], "sha256:9")}
    observed[key("decoder-0")] = replace(unit("decoder-0", "decoder"), **changes)
    return make_plan(without_peers(), recorded, observed, recorded)


def test_a_unit_file_edited_and_repaired_is_only_read_again() -> None:
    done = edited_unit_file()
    assert not done.restarts and [s.name for s in done.steps] == ["put", "decoder"]
    assert not edited_unit_file(deviations=("needs daemon-reload",)).restarts


@pytest.mark.parametrize("deviations", [(), ("needs daemon-reload",)])
def test_a_process_started_from_an_edited_unit_file_is_restarted(deviations: tuple[str, ...]) -> None:
    [restart] = edited_unit_file(invocation="i2", deviations=deviations).restarts
    assert restart.causes == ("was started with the edited /etc/systemd/system/pdctl-chat-decoder-0.service",)


def test_a_masked_unit_whose_process_still_runs_is_restarted() -> None:
    observed = files_and_units()
    observed[key("proxy")] = unit("proxy", "proxy", active="masked")
    done = plan(without_peers(), files_and_units(), observed)
    assert [(r.instance, r.causes) for r in done.restarts] == [("proxy", ("is masked",))]
    observed[key("proxy")] = unit("proxy", "proxy", "", active="masked")
    assert not plan(without_peers(), files_and_units(), observed).restarts


def test_what_an_interrupted_apply_was_at_is_no_drift_and_is_looked_after() -> None:
    observed = files_and_units()
    observed[key("decoder-0")] = replace(unit("decoder-0", "decoder"), invocation="i2")
    recorded = {k: r for k, r in files_and_units().items() if k != key("proxy")}
    pending = {key("decoder-0"), key("proxy"), Key(H, "file:/gone")}
    done = make_plan(without_peers(), files_and_units(), observed, recorded, pending=pending)
    assert [(d.key, d.what) for d in done.drift] == [
        (key(name), ("left unfinished by an interrupted apply",)) for name in ("decoder-0", "proxy")
    ]
    assert not done.changes and not done.restarts and not done.empty
    assert [s.keys for s in done.steps] == [(key("decoder-0"),), (key("proxy"),)]


def test_a_process_with_another_environment_is_restarted_alone() -> None:
    observed = files_and_units()
    observed[key("prefiller-0")] = unit("prefiller-0", "prefiller", deviations=("environment: FOO added",))
    done = plan(real(), files_and_units(), observed)
    assert [(r.instance, r.causes) for r in done.restarts] == [("prefiller-0", ("environment: FOO added",))]


def test_a_unit_that_left_the_spec_stops_first_when_another_starts_on_its_host() -> None:
    desired = files_and_units()
    moved = desired.pop(key("decoder-0"))
    fresh = replace(moved, name="pdctl-chat-server-0.service", instance="server-0", role="server")  # type: ignore[arg-type]
    desired[key("server-0")] = fresh
    names = [s.name for s in plan(without_peers(), desired, files_and_units()).steps]
    assert names == ["stop", "server"]
    del desired[key("server-0")]
    assert [s.name for s in plan(without_peers(), desired, files_and_units()).steps] == ["delete"]


def test_hosts_that_did_not_answer_are_left_out_and_named() -> None:
    done = make_plan(without_peers(), files_and_units(), {}, {}, unreachable={H: "no route"})
    assert not done.changes and done.unreachable == {H: "no route"}
