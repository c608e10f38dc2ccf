"""A host that runs another system than the spec says is left alone, whole."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.apply.systems import without_other_systems
from pdctl.hosts.observation import Facts, Observation, RecordMeta
from pdctl.state import Directory, key_of
from pdctl.topology import Topology, resolve
from tests.examples import desired
from tests.topology import specs

META = RecordMeta("2026-01-01T00:00:00+00:00", "me@here", "0.1.0", "abc")


def facts(os_id: str, os_version: str) -> Facts:
    return Facts(
        "h", "3.11.2", "6.1.0", "x86_64", os_id, os_version, "252", "b", 1.0, True, 8, 2**34, {"/opt": 2**40}
    )


def seen(**systems: tuple[str, str]) -> Observation:
    """Hosts that hold and have recorded one folder."""
    row = Directory("/opt/pdctl")
    state = {key_of(host, row): row for host in systems}
    return Observation(
        state=state,
        recorded=state,
        records=dict.fromkeys(systems, META),
        contents={},
        facts={host: facts(*system) for host, system in systems.items()},
        bundle={host: {} for host in systems},
        notices={},
        failures={},
    )


def two(engine: Any, **first: Any) -> Topology:
    named = [{"name": name, "address": f"10.0.0.{i}"} for i, name in enumerate(("h1", "h2"), 1)]
    return resolve(specs.cluster(engine=engine, hosts=[named[0] | first, named[1]]))


def test_hosts_as_the_spec_says_are_left_as_they_are() -> None:
    looked = seen(h1=("ubuntu", "22.04"), h2=("debian", "12"))
    topology = two("simulator", os="ubuntu-22.04")
    assert without_other_systems(topology, desired("lab"), looked) is looked


@pytest.mark.parametrize(
    ("written", "runs", "message", "hint"),
    [
        (
            {"os": "ubuntu-22.04"},
            ("debian", "12"),
            "h1: runs debian 12, the spec says ubuntu-22.04",
            "set `os: debian-12`",
        ),
        (
            {},
            ("ubuntu", "24.04"),
            "h1: runs ubuntu 24.04, the spec says debian-12 (the default of `os`)",
            "set `os: ubuntu-24.04`",
        ),
        (
            {},
            ("debian", "13"),
            "h1: runs debian 13, the spec says debian-12 (the default of `os`)",
            "hosts can run debian-12, ubuntu-22.04, ubuntu-24.04",
        ),
        (
            {},
            ("", ""),
            "h1: runs a system that does not say its name, the spec says debian-12 (the default of `os`)",
            "hosts can run debian-12, ubuntu-22.04, ubuntu-24.04",
        ),
    ],
)
def test_another_system_is_one_error_and_nothing_else_is_left_of_the_host(
    written: dict[str, str], runs: tuple[str, str], message: str, hint: str
) -> None:
    """Rows of it that stayed among the recorded ones would be taken for rows to delete."""
    left = without_other_systems(
        two("simulator", **written), desired("lab"), seen(h1=runs, h2=("debian", "12"))
    )
    assert {host: (str(error), error.hint) for host, error in left.failures.items()} == {
        "h1": (message, hint)
    }
    assert {key.host for key in (*left.state, *left.recorded)} == {"h2"}
    assert set(left.facts) == set(left.records) == set(left.bundle) == {"h2"}


def test_where_nothing_is_wanted_any_system_is_fine() -> None:
    looked = seen(h1=("debian", "13"), h2=("debian", "13"))
    assert without_other_systems(two("simulator"), {}, looked) is looked
