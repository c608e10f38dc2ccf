"""What a look says of reboots, and whom an apply leaves alone because nobody has allowed one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.apply.boots import boots_of, without_stuck
from pdctl.apply.consent import allowing_reboots, refused_reboots, waiting_reboots
from pdctl.apply.generations import summary
from pdctl.apply.look import Look, judge
from pdctl.desired import desire
from pdctl.hosts.holder import this_process
from pdctl.hosts.observation import Facts, Observation, OwedReboot, RecordMeta
from pdctl.plan.machine import Machine
from pdctl.plan.reboots import Asked
from pdctl.state import Key, Unit
from pdctl.topology import Topology
from tests.plan.changes import running
from tests.plan.test_reboots import NEW, PLACES, SOUND, SPLIT, planned, spec

META = RecordMeta("2026-01-01T00:00:00+00:00", "me@here", "0.1.0", "abc")
SYSTEM = ("debian", "12")


def facts(machine: Machine, boot: str = "b1") -> Facts:
    os_id, release = SYSTEM
    return Facts(
        "h", "3.11.2", machine.kernel, "x86_64", os_id, release, "252", boot, 1.0, True, 8, 2**34, {},
        driver=machine.driver, stack=machine,
    )  # fmt: skip


def seen(topology: Topology, **machines: Machine) -> Observation:
    state = running(desire(topology))
    return Observation(
        state=state,
        recorded=state,
        records=dict.fromkeys(machines, META),
        contents={},
        facts={host: facts(machine) for host, machine in machines.items()},
        bundle={host: {} for host in machines},
        notices={},
        failures={},
    )


IN_FORCE = replace(SPLIT, driver=NEW.split("-")[0])


def looked(topology: Topology, observation: Observation, tmp_path_factory: pytest.TempPathFactory) -> Look:
    return judge(topology, tmp_path_factory.getbasetemp(), desire(topology), observation)


def test_what_bears_on_a_reboot_is_of_this_moment_and_of_the_record() -> None:
    topology = spec(PLACES)
    looks = seen(topology, h1=SOUND, h2=SOUND)
    told = boots_of(topology, replace(looks, records={"h1": replace(META, reboot=OwedReboot("b0", ("x",)))}))
    assert told.ids == {"h1": "b1", "h2": "b1"} and told.asked == {"h1": Asked("b0", ("x",))}
    assert told.own == frozenset() and told.hushed == frozenset()


def test_the_machine_that_pdctl_runs_on_is_known_by_its_boot_and_by_the_spec() -> None:
    topology = spec(PLACES)
    looks = seen(topology, h1=SOUND, h2=SOUND)
    here = replace(looks, facts={"h1": facts(SOUND), "h2": facts(SOUND, this_process().boot)})
    assert boots_of(topology, here).own == {"h2"}
    ssh = topology.spec.ssh.model_copy(update={"connection": "local"})
    local = replace(topology, spec=topology.spec.model_copy(update={"ssh": ssh}))
    assert boots_of(local, looks).own == {"h1", "h2", "h3"}


def test_a_host_whose_engine_could_not_be_started_again_is_left_alone(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    topology = spec(PLACES, allow=False)
    looks = seen(topology, h1=IN_FORCE, h2=SPLIT)
    found = looked(topology, looks, tmp_path_factory)
    assert found.plan.reboots.resting == {"h2"} and found.plan.steps == ()
    assert without_stuck(found.desired, looks, found.plan) is looks
    (line,) = waiting_reboots(found)
    assert line.startswith("h2 waits for a reboot (") and "no engine is started there" in line
    units = {key: row for key, row in looks.state.items() if isinstance(row, Unit)}
    key, row = next((key, row) for key, row in units.items() if row.instance == "decoder-0")
    old = dict(looks.state) | {key: replace(row, revision="r0")}
    found = looked(topology, replace(looks, state=old, recorded=old), tmp_path_factory)
    (error,) = found.failures
    assert (
        error.where == "h2" and "decoder-0 could not be started again, and goes on as before" in error.message
    )
    assert error.hint and "--allow-reboot" in error.hint and found.plan.reboots.needs == ()


def test_the_history_tells_of_reboots_and_not_of_what_waits_for_one() -> None:
    plan = planned()
    assert summary(plan).endswith("; reboot h1, h2") and summary(plan).startswith("update 2; restart ")
    assert summary(planned(allow=False)) == "record what is there"


def test_consent_is_given_for_one_apply_and_what_is_refused_is_an_error(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    topology = spec(PLACES, allow=False)
    assert allowing_reboots(topology, False) is topology
    allowed = allowing_reboots(topology, True)
    assert allowed.spec.serving.rollout.allow_reboot and not topology.spec.serving.rollout.allow_reboot
    looks = seen(allowed, h1=IN_FORCE, h2=replace(SPLIT, built=()))
    found = looked(allowed, looks, tmp_path_factory)
    (error,) = refused_reboots(found)
    assert error.where == "h2" and "has no module nvidia" in error.message and not waiting_reboots(found)
    assert Key("h2", "unit:pdctl-chat-decoder-0.service") in found.desired
