"""Time of moving KV against the time of computing it, for declared networks."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.knowledge.models import MODELS
from pdctl.knowledge.speed import prefill_s
from pdctl.topology.resolve import survey
from tests.topology.specs import cluster
from tests.topology.specs import hosts as machines_of


@pytest.mark.parametrize(("gpus", "measured_s"), [(1, 0.397), (2, 0.226), (4, 0.140), (8, 0.097)])
def test_the_time_of_a_prompt_is_near_what_was_measured(gpus: int, measured_s: float) -> None:
    model = MODELS["openai/gpt-oss-120b"]
    found = prefill_s(8192, model.active, model.layers, model.hidden, model.experts, gpus, 989.4)
    assert found == pytest.approx(measured_s, rel=0.25)


def found(network: Any, prefillers: Any, decoders: Any, hosts: int = 2, **more: Any) -> list[tuple[str, str]]:
    rows = [
        {"name": f"gpu0{i}", "address": f"10.0.0.1{i}", "gpus": {"count": 8, "model": "H100-SXM-80GB"}}
        | ({"network": network} if network else {})
        for i in range(1, hosts + 1)
    ]
    pools = {"connector": "nixl", "prefillers": prefillers, "decoders": decoders}
    _, findings = survey(cluster(hosts=rows, serving=pools, **more))
    return [(f.rule, f.message) for f in findings if f.rule.startswith("NET")]


TWO = {"tensor_parallel": 2}


@pytest.mark.parametrize(
    ("gbit", "kind", "rules"),
    [
        (400, "ib", []),
        (400, "roce", []),
        (100, "roce", ["NET002"]),
        (25, "roce", ["NET002"]),  # 0.216 s of 0.226
        (10, "ethernet", ["NET001"]),
        (100, "ethernet", ["NET002"]),  # TCP through the host: about 3 GB/s of 12.5
        (400, "ethernet", ["NET002"]),
    ],
)
def test_a_network_is_judged_by_what_it_carries(gbit: float, kind: str, rules: list[str]) -> None:
    assert [rule for rule, _ in found({"gbit": gbit, "kind": kind}, TWO, TWO)] == rules


def test_prefillers_of_one_host_share_its_network() -> None:
    one = found({"gbit": 100, "kind": "roce"}, {"count": 1, **TWO}, TWO)
    four = found({"gbit": 100, "kind": "roce"}, {"count": 4, **TWO}, TWO)
    assert "moving takes 24%" in one[0][1] and "moving takes 96%" in four[0][1]


def test_what_enters_counts_as_well() -> None:
    pools = {"count": 4, "placement": ["gpu01", "gpu02", "gpu03", "gpu04"], **TWO}
    [(rule, message)] = found({"gbit": 100, "kind": "roce"}, pools, {"hosts": ["gpu05"], **TWO}, hosts=5)
    assert rule == "NET002" and "for its decoders" in message and "96%" in message


def test_what_stays_on_a_host_needs_no_network() -> None:
    assert found({"gbit": 1}, {"hosts": ["gpu01"]}, {"hosts": ["gpu01"]}) == []


def test_nothing_is_said_without_a_network_a_known_gpu_or_a_known_model() -> None:
    assert found(None, TWO, TWO) == []
    shape = {"layers": 36, "kv_heads": 8, "head_dim": 64}
    assert found({"gbit": 1}, TWO, TWO, model={"id": "acme/x", "max_model_len": 4096, "kv": shape}) == []


def test_hosts_that_are_alike_are_one_finding() -> None:
    names = ["gpu01", "gpu02", "gpu03"]
    pools = {"count": 3, "placement": names, **TWO}
    decoders = {"count": 3, "placement": ["gpu04", "gpu05", "gpu06"], **TWO}
    [(_, message)] = found({"gbit": 100, "kind": "roce"}, pools, decoders, hosts=6)
    assert message.endswith("and that of 5 more hosts similarly")


NETWORKS = {
    "ib": {"gbit": 400, "kind": "ib"},
    "roce": {"gbit": 400, "kind": "roce"},
    "tcp": {"gbit": 25},
    "none": None,
}


@pytest.mark.parametrize(
    ("ours", "theirs", "rule"),
    [
        ("ib", "roce", "NET003"),
        ("roce", "ib", "NET003"),
        ("ib", "tcp", "NET004"),
        ("tcp", "roce", "NET004"),
        ("ib", "ib", None),
        ("tcp", "tcp", None),
        ("ib", "none", None),
    ],
)
@pytest.mark.parametrize("connector", ["lmcache", "nixl"])
def test_hosts_that_exchange_kv_have_networks_of_one_kind(
    ours: str, theirs: str, rule: str | None, connector: str
) -> None:
    machines = [
        host | {"network": NETWORKS[kind]} for host, kind in zip(machines_of(2), (ours, theirs), strict=True)
    ]
    pools = {"prefillers": {"hosts": ["gpu01"]}, "decoders": {"hosts": ["gpu02"]}, "connector": connector}
    _, findings = survey(cluster(hosts=machines, serving=pools))
    found = [each for each in findings if each.rule in ("NET003", "NET004")]
    assert [each.rule for each in found] == ([rule] if rule else [])
    assert all("gpu01" in each.message and each.path == ("hosts", 1, "network", "kind") for each in found)


def test_networks_of_hosts_that_exchange_nothing_may_differ() -> None:
    machines = [
        host | {"network": NETWORKS[kind]} for host, kind in zip(machines_of(2), ("ib", "roce"), strict=True)
    ]
    together = {"prefillers": {"hosts": ["gpu01"]}, "decoders": {"hosts": ["gpu01"]}}
    for pools in (together, {"mode": "aggregated", "instances": {"count": 16}}):
        _, findings = survey(cluster(hosts=machines, serving=pools))
        assert not [each for each in findings if each.rule.startswith("NET")]
