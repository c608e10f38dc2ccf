"""What a plan for many hosts says stays short, and planning it takes no quadratic time."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from pdctl.desired import desire
from pdctl.plan import Plan, make_plan
from pdctl.plan.restarts import PEERS_NAMED
from pdctl.state import Key, Resource, Unit
from pdctl.topology import Topology, resolve
from tests.topology.specs import cluster, hosts, serving

HOSTS = 6


def topology(count: int = HOSTS) -> Topology:
    """Two prefillers and two decoders on each host, whose prefillers keep their decoders' addresses."""
    return resolve(cluster(hosts=hosts(count), serving=serving(2 * count, 2 * count, 2)))


def with_stale_decoders(here: Topology) -> Plan:
    return make_plan(here, *states(here))


def states(here: Topology) -> tuple[dict[Key, Resource], dict[Key, Resource], dict[Key, Resource]]:
    """Desired, observed and recorded."""
    desired = desire(here)
    observed: dict[Key, Resource] = {
        key: replace(r, invocation="i1", revision="old" if r.role == "decoder" else r.revision)
        if isinstance(r, Unit)
        else r
        for key, r in desired.items()
    }
    return desired, observed, observed


def calls_of_plan(count: int) -> int:
    """How many functions run: time that no other load of the machine can change."""
    here, calls = topology(count), 0
    given = states(here)

    def on_event(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        make_plan(here, *given)
    finally:
        sys.setprofile(before)
    return calls


def test_a_prefiller_names_some_of_its_decoders_and_counts_the_others() -> None:
    restarts = with_stale_decoders(topology()).restarts
    causes = {r.instance: r.causes for r in restarts}
    assert len(causes) == 4 * HOSTS
    told = causes["prefiller-0"]
    assert len(told) == PEERS_NAMED + 1
    assert all("its peer decoder-" in cause for cause in told[:-1])
    assert told[-1] == f"{2 * HOSTS - PEERS_NAMED} more of its peers restart or were restarted"


def test_few_decoders_are_all_named() -> None:
    here = resolve(cluster(hosts=hosts(1), serving=serving(1, 2, 2)))
    causes = {r.instance: r.causes for r in with_stale_decoders(here).restarts}
    assert len(causes["prefiller-0"]) == 2


def test_a_plan_for_four_times_the_hosts_takes_four_times_the_work() -> None:
    few, many = calls_of_plan(8), calls_of_plan(32)
    assert few > 1000
    assert many < 5 * few
