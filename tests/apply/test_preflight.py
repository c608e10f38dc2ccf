"""What `doctor` would say stops an apply before any change, where it is in the way of what is to be done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pdctl.apply.look import Look, judge, narrow
from pdctl.apply.preflight import Preflight, preflight
from pdctl.desired import desire
from pdctl.errors import ErrorGroup
from pdctl.hosts.observation import Facts, Observation
from pdctl.plan.foreign import Foreign
from pdctl.plan.machine import Machine
from pdctl.plan.targets import Targets
from pdctl.spec.load import inspect
from pdctl.state import State
from pdctl.topology.judge import judge as judge_spec
from tests.hosts_unit.test_suitability import FACTS, SPEC
from tests.spec.breaking import sound_but_for

LAB = "hosts: [{name: h1, address: 198.18.0.10}]\nengine: simulator\nmodel: {id: pdctl/tiny}\n"
HOST = replace(FACTS, os_id="debian", os_version="12", python="3.11.2", gpus=(), driver="")
TAKEN = Foreign("port", "7200", "decoder-0", "h1", 9, "nginx", "root")


def looked(spec: str, facts: Facts, *, there: bool = False, foreign: tuple[Foreign, ...] = ()) -> Look:
    """At one host that holds all that it shall, or nothing."""
    topology = judge_spec(inspect(sound_but_for(spec), "cluster.yaml")).sound()
    (host,) = topology.hosts
    wanted = desire(topology)
    state: State = wanted if there else {}
    seen = Observation(state, state, {}, {}, {host: facts}, {}, {}, {}, foreign={host: foreign})
    return judge(topology, Path(), wanted, seen)


def found(spec: str, seen: Look) -> Preflight:
    text = inspect(sound_but_for(spec), "cluster.yaml").text
    assert text is not None
    return preflight(seen, text, 999.0, 1001.0)


def rules(health: Preflight) -> tuple[list[str], list[str]]:
    return [each.rule for each in health.errors], [each.rule for each in health.warnings]


def test_a_host_that_is_well_is_silent() -> None:
    health = found(LAB, looked(LAB, HOST))
    assert rules(health) == ([], [])
    health.refuse("chat")


@pytest.mark.parametrize(
    ("facts", "foreign", "expected"),
    [
        ({}, (TAKEN,), (["FACT007"], [])),
        ({"disk_free": {"/opt": 1 << 20}}, (), (["FACT009"], [])),
        ({"time_s": 9999.0}, (), ([], ["FACT010"])),
    ],
)
def test_errors_stop_and_warnings_are_told(facts: dict[str, Any], foreign: Any, expected: Any) -> None:
    health = found(LAB, looked(LAB, replace(HOST, **facts), foreign=foreign))
    assert rules(health) == expected
    if health.errors:
        with pytest.raises(
            ErrorGroup, match="`chat` would not work on its hosts, and nothing was changed"
        ) as caught:
            health.refuse("chat")
        assert caught.value.errors[0].where == "cluster.yaml:3:9: hosts[0]"


def test_what_the_spec_sets_aside_stops_nothing() -> None:
    spec = LAB + "suppress: [{rule: FACT007, reason: nginx goes first}]\n"
    assert rules(found(spec, looked(spec, HOST, foreign=(TAKEN,)))) == ([], [])


def test_hosts_on_which_nothing_changes_are_not_judged() -> None:
    seen = looked(LAB, HOST, there=True, foreign=(TAKEN,))
    assert seen.plan.empty and rules(found(LAB, seen)) == ([], [])


def test_the_driver_can_be_installed_where_its_lack_is_the_error() -> None:
    """Without it no GPU is seen: packages go on with a warning, and engines do not start."""
    seen = looked(SPEC, replace(FACTS, gpus=(), driver=""))
    assert rules(found(SPEC, seen)) == (["FACT004"], [])
    packages = narrow(seen, Targets(layers=("base", "packages")))
    assert not packages.plan.empty and rules(found(SPEC, packages)) == ([], ["FACT004"])


def test_a_next_kernel_without_a_driver_stops_nothing_that_reboots_nothing() -> None:
    stack = Machine(libraries={"x": "580.95.05-1"}, next_kernel="6.8.0-64-generic", chosen_by="x")
    assert rules(found(SPEC, looked(SPEC, replace(FACTS, stack=stack)))) == ([], ["FACT022"])
