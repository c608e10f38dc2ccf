"""What pdctl itself put on hosts, adopted from there, is the same cluster again."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from pdctl.adopt.draft import draft
from pdctl.adopt.verdict import judge
from pdctl.adopt.write import draft_text
from pdctl.desired import desire
from pdctl.spec.load import parse
from pdctl.state import File, Key, Package, Resource
from pdctl.topology import Topology, resolve
from tests.adopt.deployed import deployed
from tests.adopt.strategies import specs
from tests.examples import EXAMPLES
from tests.examples import topology as example


def adopted(topology: Topology) -> Topology:
    found = draft(deployed(topology))
    assert found.problems == ()
    assert [note for note in found.notes if note.kind == "contradiction"] == []
    return resolve(parse(draft_text(found), "cluster.yaml"))


def visible(topology: Topology) -> dict[Key, Resource]:
    """What it wants of hosts, but for packages that nobody asks for without a pin."""
    return {
        key: resource
        for key, resource in desire(topology).items()
        if not isinstance(resource, Package)
        and not (isinstance(resource, File) and resource.path.startswith("/etc/apt/"))
    }


def same(ours: Topology, theirs: Topology) -> None:
    assert theirs.instances == ours.instances
    assert theirs.proxy == ours.proxy and theirs.kv == ours.kv
    for name in {instance.host for instance in ours.instances} | {ours.proxy.host}:
        assert (
            dataclasses.replace(theirs.hosts[name], interface=ours.hosts[name].interface) == ours.hosts[name]
        )
    assert visible(theirs) == visible(ours)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_comes_back_with_nothing_left_to_do(name: str) -> None:
    same(example(name), found := adopted(example(name)))
    assert desire(found) == desire(example(name))


@settings(
    max_examples=500 if "PDCTL_SOAK" in os.environ else 12,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(values=specs())
def test_any_cluster_comes_back_with_the_same_places_ports_files_and_units(values: dict[str, Any]) -> None:
    topology = judge(values).topology
    assume(topology is not None)
    assert topology is not None
    same(topology, adopted(topology))
