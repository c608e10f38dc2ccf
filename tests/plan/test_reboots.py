"""Reboots as part of a plan: who needs one, who gets it, in which order, and what goes on serving."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from pdctl.desired import desire
from pdctl.plan import Plan, StepKind, make_plan
from pdctl.plan.machine import Machine
from pdctl.plan.reboot_request import reboot_request
from pdctl.plan.reboots import Asked, Boots
from pdctl.spec.load import examine
from pdctl.state import Key, Package, State, Unit
from pdctl.topology import Topology, resolve
from tests.plan.changes import running
from tests.plan.executor import Cluster, Engine

OLD, NEW = "580.95.05-0ubuntu0.22.04.2", "580.159.03-0ubuntu0.22.04.1"
DRIVER = "nvidia-driver-580-server-open"
SOUND = Machine(
    modules=("nvidia",),
    libraries={"libnvidia-compute-580-server": OLD},
    next_kernel="6.1.0-40-amd64",
    chosen_by="the newest in /boot",
    headers=True,
    built=("nvidia",),
    driver="580.95.05",
    kernel="6.1.0-40-amd64",
)
PLACES = {"prefiller-0": "h1", "decoder-0": "h2", "decoder-1": "h1", "prefiller-1": "h2"}


def spec(
    places: Mapping[str, str], *, stale: bool = True, allow: bool = True, stack: str = "", rollout: str = ""
) -> Topology:
    hosts = "".join(f"  - {{name: h{n}, address: 198.18.0.{n}}}\n" for n in (1, 2, 3))
    pools = {
        role: [places[name] for name in sorted(places) if name.startswith(role)]
        for role in ("prefiller", "decoder")
    }
    text = f"""\
cluster: chat
hosts:
{hosts}engine: {{kind: simulator, simulator: {{stack: true, stale_peers: {str(stale).lower()}}}}}
stack: {{driver: {NEW}{stack}}}
model: {{id: pdctl/tiny, served_name: tiny}}
serving:
  proxy: {{host: h1}}
  prefillers: {{placement: [{", ".join(pools["prefiller"])}]}}
  decoders: {{placement: [{", ".join(pools["decoder"])}]}}
  rollout: {{allow_reboot: {str(allow).lower()}{rollout}}}
"""
    return resolve(examine(text, "cluster.yaml").cluster)


def before(topology: Topology, hosts: Iterable[str]) -> tuple[State, State]:
    """What is wanted, and hosts that run all of it on the driver of before."""
    desired = desire(topology)
    there: dict[Key, Any] = {
        key: replace(row, role="", instance="") if isinstance(row, Unit) else row  # as hosts tell it
        for key, row in running(desired).items()
    }
    for key, row in desired.items():
        if isinstance(row, Package) and row.name == DRIVER and key.host in hosts:
            there[key] = replace(row, version=OLD)
    return desired, there


def planned(
    places: Mapping[str, str] = PLACES,
    machines: Mapping[str, Machine] | None = None,
    hosts: Iterable[str] = ("h1", "h2"),
    boots: Boots | None = None,
    away: Mapping[str, str] = {},
    **more: Any,
) -> Plan:
    topology = spec(places, **more)
    desired, there = before(topology, hosts)
    told = {
        host: replace(SOUND, libraries={"libnvidia-compute-580-server": NEW}, driver=NEW.split("-")[0])
        for host in ("h1", "h2", "h3")
    }
    told |= dict.fromkeys(hosts, SOUND) | dict(machines or {})
    there = {key: row for key, row in there.items() if key.host not in away}
    told = {host: machine for host, machine in told.items() if host not in away}
    bearing = replace(boots or Boots(), machines=told)
    return make_plan(topology, desired, there, there, boots=bearing, unreachable=away)


def kinds(plan: Plan) -> list[str]:
    return [step.name for step in plan.steps]


def test_hosts_go_one_after_the_other_and_the_proxys_is_the_last() -> None:
    plan = planned()
    assert plan.reboots.hosts == ("h1", "h2") and not plan.reboots.refused
    assert [step.hosts for step in plan.steps if step.hosts] == [("h2",), ("h1",)]
    assert kinds(plan) == ["drain_1", "reboot_1", "restart_1", "drain_2", "reboot_2", "restart_2", "proxy"]
    first, reboot, restart, second, last = plan.steps[:5]
    assert set(first.drain) == {"decoder-0", "prefiller-1"} and not first.outage
    assert Key("h2", f"package:{DRIVER}") in reboot.keys and not reboot.outage
    assert {key.id for key in reboot.keys} - {f"package:{DRIVER}"} == {key.id for key in restart.keys}
    assert "no request is taken" in second.outage and "its host h1 reboots" in last.outage
    assert not any(step.kind is StepKind.PUT and step.keys for step in plan.steps)


def test_without_consent_what_needs_a_reboot_waits_and_nothing_restarts() -> None:
    plan = planned(allow=False)
    assert [need.host for need in plan.reboots.needs] == ["h1", "h2"] == list(plan.reboots.left)
    assert plan.steps == () and plan.restarts == () and not plan.empty
    assert plan.waiting == {Key("h1", f"package:{DRIVER}"), Key("h2", f"package:{DRIVER}")}


def test_a_module_that_is_not_loaded_needs_no_reboot() -> None:
    plan = planned(machines=dict.fromkeys(("h1", "h2"), replace(SOUND, driver="", modules=())))
    assert plan.reboots.needs == () and kinds(plan) == ["put"]


def test_a_user_space_that_was_moved_under_the_pinned_module_is_put_back_at_once() -> None:
    now = replace(SOUND, driver=NEW.split("-")[0])
    plan = planned(machines=dict.fromkeys(("h1", "h2"), now))
    assert plan.reboots.needs == () and kinds(plan) == ["put"]


SPLIT = replace(SOUND, libraries={"libnvidia-compute-580-server": NEW})


def test_what_is_on_disk_already_is_rebooted_into_and_then_never_again() -> None:
    (need, *_), told = planned(hosts=(), machines={"h2": SPLIT}).reboots.needs, Asked("b1", ("x",))
    assert (need.host, need.stops, need.waits) == ("h2", True, False)
    assert need.words == f"{DRIVER} 580.95.05 -> 580.159.03"
    again = Boots(ids={"h2": "b2"}, asked={"h2": replace(told, why=(need.words,))})
    refused = planned(hosts=(), machines={"h2": SPLIT}, boots=again)
    assert refused.reboots.hosts == () and "rebooted for that already" in refused.reboots.refused["h2"]
    other = planned(hosts=(), machines={"h2": SPLIT}, boots=Boots(ids={"h2": "b2"}, asked={"h2": told}))
    assert other.reboots.hosts == ("h2",)
    same = planned(hosts=(), machines={"h2": SPLIT}, boots=replace(again, ids={"h2": "b1"}))
    assert same.reboots.hosts == ("h2",)


def test_a_reboot_that_was_begun_and_never_came_is_still_owed() -> None:
    asked = {"h2": Asked("b1", ("doca-ofed 2.9 -> 3.0.0",))}
    plan = planned(hosts=(), boots=Boots(ids={"h2": "b1"}, asked=asked))
    assert plan.reboots.hosts == ("h2",) and "doca-ofed" in plan.reboots.needs[0].words
    gone = planned(hosts=(), boots=Boots(ids={"h2": "b2"}, asked=asked))
    assert gone.reboots.needs == () and gone.empty


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        (replace(SOUND, built=(), headers=False), "apt-get install linux-headers-6.1.0-40-amd64"),
        (replace(SOUND, secure_boot=True), "Secure Boot is on"),
    ],
)
def test_a_host_that_would_come_back_worse_is_not_rebooted(machine: Machine, says: str) -> None:
    plan = planned(machines={"h2": machine})
    assert plan.reboots.hosts == ("h1",) and says in plan.reboots.refused["h2"]
    assert Key("h2", f"package:{DRIVER}") in plan.waiting
    assert not any("h2" in step.hosts for step in plan.steps)


def test_who_boots_in_another_way_than_pdctl_sees_sets_the_rule_aside() -> None:
    lacking = replace(SOUND, built=(), secure_boot=True)
    hushed = Boots(hushed=frozenset({"FACT022", "FACT024"}))
    plan = planned(machines={"h2": lacking}, boots=hushed)
    assert plan.reboots.hosts == ("h1", "h2") and plan.reboots.blind
    one = planned(machines={"h2": lacking}, boots=replace(hushed, hushed=frozenset({"FACT022"})))
    assert "Secure Boot" in one.reboots.refused["h2"]


def test_a_host_that_others_rely_on_waits_for_one_that_was_left_out() -> None:
    plan = planned(away={"h2": "does not answer"})
    assert plan.reboots.hosts == () and plan.steps == ()
    assert "h2 was left out, and unless prefiller-1 there serves" in plan.reboots.refused["h1"]
    spread = {"prefiller-0": "h1", "decoder-0": "h1", "prefiller-1": "h2", "decoder-1": "h2"}
    three = spread | {"prefiller-2": "h3", "decoder-2": "h3"}
    assert planned(three, away={"h2": "does not answer"}).reboots.hosts == ("h1",)


def test_pdctl_does_not_reboot_the_machine_that_it_runs_on() -> None:
    plan = planned(boots=Boots(own=frozenset({"h1"})))
    assert plan.reboots.hosts == ("h2",) and "pdctl itself runs on it" in plan.reboots.refused["h1"]


def test_targets_that_leave_a_host_out_leave_it_as_it_is() -> None:
    assert planned(boots=Boots(within=frozenset({"h2"}))).reboots.hosts == ("h2",)


def test_engines_wait_for_nouveau_to_go_where_nobody_may_reboot() -> None:
    nouveau = replace(SOUND, modules=("nouveau",), driver="")
    topology = spec(PLACES, allow=False)
    desired = desire(topology)
    machines = dict.fromkeys(("h1", "h2"), nouveau)
    plan = make_plan(topology, desired, {}, {}, boots=Boots(machines))
    assert plan.reboots.resting == {"h1", "h2"} and kinds(plan) == ["put", "proxy"]
    waits = {key for key, row in desired.items() if isinstance(row, Unit) and row.role != "proxy"}
    assert plan.waiting == waits
    plan = make_plan(spec(PLACES), desired, {}, {}, boots=Boots(machines))
    assert kinds(plan) == ["put", "reboot", "decoder", "prefiller", "proxy"]
    assert plan.steps[1].hosts == ("h1", "h2") and not plan.steps[1].outage


def test_a_pinned_kernel_is_rebooted_into_once_it_boots_next() -> None:
    stack = ", kernel: 6.1.0-41-amd64"
    plan = planned(hosts=(), machines=dict.fromkeys(("h1", "h2"), SOUND), stack=stack)
    assert "kernel 6.1.0-41-amd64 is pinned, and 6.1.0-40-amd64 boots next" in plan.reboots.refused["h1"]
    assert "grub-set-default" in plan.reboots.refused["h1"]
    next_one = replace(SOUND, next_kernel="6.1.0-41-amd64")
    plan = planned(hosts=(), machines=dict.fromkeys(("h1", "h2"), next_one), stack=stack)
    assert plan.reboots.hosts == ("h1", "h2")
    assert "6.1.0-40-amd64 -> 6.1.0-41-amd64" in plan.reboots.needs[0].words
    runs = replace(next_one, kernel="6.1.0-41-amd64")
    now = replace(runs, driver=NEW.split("-")[0], libraries={"libnvidia-compute-580-server": NEW})
    assert planned(hosts=(), machines=dict.fromkeys(("h1", "h2"), now), stack=stack).empty


def test_a_host_is_told_what_has_to_be_in_force_afterwards() -> None:
    topology = spec(PLACES)
    desired, _ = before(topology, ())
    plan = planned()
    step = next(step for step in plan.steps if step.hosts == ("h2",))
    told = reboot_request(plan, desired, "h2", [key for key in step.keys if key.host == "h2"], 60)
    assert told["rest"] == ["pdctl-chat-decoder-0.service", "pdctl-chat-prefiller-1.service"]
    assert told["reboot"]["driver"] == "580.159.03" and told["reboot"]["timeout_s"] == 60
    assert told["reboot"]["why"] == [f"{DRIVER} 580.95.05 -> 580.159.03"]


def test_whatever_can_be_served_is_served_wherever_engines_are() -> None:
    """Any placement on three hosts of which some reboot: no wrong pair, nobody ended who serves, no outage
    but an announced one, and none where some order avoids it."""
    dice, hosts = random.Random(7), ("h1", "h2", "h3")
    for number in range(60):
        names = [f"{role}-{n}" for role in ("prefiller", "decoder") for n in range(dice.randint(1, 3))]
        places = {name: dice.choice(hosts) for name in names}
        reboot = [h for h in hosts if dice.random() < 0.7 and (h in places.values())]
        stale = dice.random() < 0.5
        plan = planned(places, hosts=reboot, stale=stale)
        assert plan.reboots.hosts == tuple(reboot), number
        cluster = executed(plan, places, stale)
        assert sorted(cluster.rebooted) == reboot
        if "h1" not in reboot and not unavoidable(places, reboot, stale):
            assert not cluster.outages, (number, places, reboot, stale, cluster.outages)


def executed(plan: Plan, places: Mapping[str, str], stale: bool) -> Cluster:
    engines = {name: Engine(name.partition("-")[0]) for name in places}
    cluster = Cluster(engines, dict.fromkeys(places, "here"), stale, places=places, front="h1")
    pairs = itertools.product([n for n in places if n[0] == "p"], [n for n in places if n[0] == "d"])
    cluster.met = dict.fromkeys(pairs, 1)
    cluster.run(plan)
    again = {restart.instance for restart in plan.restarts} - {"proxy"}
    assert {name for name, engine in engines.items() if engine.restarts} == again
    assert all(engine.up and engine.restarts < 2 for engine in engines.values())
    assert not cluster.drained and not cluster.sides
    return cluster


def unavoidable(places: Mapping[str, str], reboot: list[str], stale: bool) -> bool:
    """No order of these hosts, one at a time, leaves a pair at every moment."""
    prefills = {name for name in places if name.startswith("prefiller")}
    return not any(
        serves_throughout(places, order, rest, stale)
        for order in itertools.permutations(reboot)
        for rest in itertools.permutations(prefills - on(places, reboot))
    )


def serves_throughout(
    places: Mapping[str, str], order: Iterable[str], rest: Iterable[str], stale: bool
) -> bool:
    """Without stale peers any two pair; with them only those of one side, and other prefillers follow."""
    waves = [on(places, [host]) for host in order]
    decoders = any(name.startswith("decoder") for wave in waves for name in wave)
    waves += [{name} for name in rest] if stale and decoders else []
    new: set[str] = set()
    moving = set().union(*waves) if waves else set()
    for number, wave in enumerate(waves):
        last = number == len(waves) - 1
        there = set(places) - wave
        fresh = there & (new | (set(places) - moving if last else set()))
        sides = (fresh, there - fresh) if stale else (there,)
        if not any({n[0] for n in side} == {"p", "d"} for side in sides):
            return False
        new |= wave
    return True


def on(places: Mapping[str, str], hosts: Iterable[str]) -> set[str]:
    return {name for name, host in places.items() if host in set(hosts)}
