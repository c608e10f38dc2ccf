"""How long an instance must be idle before its restart loses nobody's KV."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.desired.engine import argv, environment
from pdctl.proxy.transfer import LAST_STEP_S
from pdctl.topology import resolve
from pdctl.topology.leases import lease_s
from pdctl.topology.model import Topology
from tests.topology.specs import cluster, serving

SIMULATED = {"kind": "simulator"}


def topology(connector: str, stack: str, **more: Any) -> Topology:
    return resolve(cluster(serving=serving(1, 1, 1, connector), stack=stack, **more))


def test_nixl_keeps_kv_for_as_long_as_the_engines_are_told() -> None:
    old, new = topology("nixl", "article-2025"), topology("nixl", "cuda13-2026")
    told = environment(old, old.instances[0])["VLLM_NIXL_ABORT_REQUEST_TIMEOUT"]
    assert lease_s(old) == float(told) == 120.0
    words = " ".join(argv(new, new.instances[0], "python"))
    assert '"kv_lease_duration":30' in words and lease_s(new) == 30.0


@pytest.mark.parametrize("stack", ["article-2025", "cuda13-2026"])
def test_with_lmcache_it_is_the_proxy_s_wait_for_late_notices(stack: str) -> None:
    assert lease_s(topology("lmcache", stack)) == LAST_STEP_S


def test_the_simulator_plays_the_versions_that_its_pins_name() -> None:
    assert lease_s(topology("nixl", "article-2025", engine=SIMULATED)) == 120.0


def test_aggregated_servers_move_no_kv() -> None:
    aggregated = {"mode": "aggregated", "instances": {"count": 1}}
    assert lease_s(resolve(cluster(serving=aggregated))) == 0.0
