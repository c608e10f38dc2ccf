"""Which NICs and NUMA nodes an instance gets, and what is said of those that were chosen by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.spec.finding import Finding
from pdctl.spec.model import Host
from pdctl.topology.affinity import near, uses_rdma
from pdctl.topology.model import Near
from pdctl.topology.resolve import survey
from tests.topology.specs import cluster, hosts, serving

TWO = [
    {"name": "mlx5_0", "gpus": [0, 1, 2, 3], "numa": 0, "cpus": "0-3,8-11"},
    {"name": "mlx5_1", "gpus": [4, 5, 6, 7], "numa": 1, "cpus": "4-7,12-15"},
]
ADDRESSES = [f"0000:{0x20 + gpu:02x}:00.0" for gpu in range(8)]


def host(nics: list[dict[str, Any]], **gpus: Any) -> Host:
    plain = {"name": "gpu01", "gpus": {"count": 8, **gpus}, "nics": nics}
    return Host.model_validate(plain)


@pytest.mark.parametrize(
    ("gpus", "nics", "numa", "cpus"),
    [
        ((4, 5), ("mlx5_1:1",), (1,), "4-7,12-15"),
        ((0,), ("mlx5_0:1",), (0,), "0-3,8-11"),
        ((3, 4), ("mlx5_0:1", "mlx5_1:1"), (0, 1), "0-15"),
        ((7, 0), ("mlx5_0:1", "mlx5_1:1"), (0, 1), "0-15"),
        ((), (), (), ""),
    ],
)
def test_an_instance_gets_the_nics_of_its_gpus(
    gpus: tuple[int, ...], nics: tuple[str, ...], numa: tuple[int, ...], cpus: str
) -> None:
    assert near(host(TWO), gpus) == Near(nics, numa, cpus)


def test_nics_are_sorted_as_people_count_and_keep_their_ports() -> None:
    rows = [
        {"name": "mlx5_10", "gpus": [0]},
        {"name": "mlx5_2", "port": 2, "gpus": [0]},
        {"name": "mlx5_2", "gpus": [0, 1]},
    ]
    assert near(host(rows), (0, 1)).nics == ("mlx5_2:1", "mlx5_2:2", "mlx5_10:1")


def test_a_gpu_near_two_groups_has_both() -> None:
    rows = [TWO[0], {**TWO[1], "gpus": [3, 4, 5, 6, 7]}]
    assert near(host(rows), (3,)) == Near(("mlx5_0:1", "mlx5_1:1"), (0, 1), "0-15")


def test_a_gpu_that_is_near_nothing_leaves_the_instance_to_ucx() -> None:
    assert near(host(TWO[:1]), (3, 4)) == Near()


def test_one_node_that_is_not_told_leaves_the_instance_on_all_cpus() -> None:
    rows = [TWO[0], {"name": "mlx5_1", "gpus": [4, 5, 6, 7]}]
    assert near(host(rows), (3, 4)) == Near(("mlx5_0:1", "mlx5_1:1"))
    assert near(host(rows), (3,)).numa == (0,) and near(host(rows), (3,)).cpus == "0-3,8-11"


def with_addresses(**changes: Any) -> list[dict[str, Any]]:
    return [{**row, "pci": f"0000:1{k}:00.0", **changes} for k, row in enumerate(TWO)]


def test_gpus_of_several_nics_are_paired_where_all_addresses_are_known() -> None:
    rows = with_addresses()
    found = near(host(rows, pci=ADDRESSES), (4, 3))
    assert found.pairs == (("0000:24:00.0", "0000:11:00.0"), ("0000:23:00.0", "0000:10:00.0"))
    assert near(host(rows, pci=ADDRESSES), (4, 5)).pairs == ()  # one NIC: nothing to tell apart
    assert near(host(rows), (3, 4)).pairs == ()
    assert near(host(TWO, pci=ADDRESSES), (3, 4)).pairs == ()
    twice = [*rows, {"name": "mlx5_2", "gpus": [3], "pci": "0000:12:00.0"}]
    assert near(host(twice, pci=ADDRESSES), (3, 4)).pairs == ()  # one NIC for each GPU is all vLLM can
    ports = [rows[0], {**rows[1], "port": 2}]
    assert near(host(ports, pci=ADDRESSES), (3, 4)).pairs == ()  # and one port for all


def findings(nics: list[dict[str, Any]], *, env: dict[str, str], count: int = 1) -> list[Finding]:
    machines = [each | {"nics": nics} for each in hosts(2)]
    asked = serving(count, count, 1)
    for pool in ("prefillers", "decoders"):
        asked[pool]["env"] = env if pool == "decoders" else {}
    spec = cluster(hosts=machines, serving=asked)
    return [each for each in survey(spec)[1] if each.rule.startswith("NIC")]


def test_a_far_nic_is_told_with_gpu_nic_and_relation() -> None:
    (found,) = findings(TWO, env={"UCX_NET_DEVICES": "mlx5_0:1"}, count=3)
    assert found.rule == "NIC007" and found.path == ("serving", "decoders", "env", "UCX_NET_DEVICES")
    assert "decoder-0 has GPU 7 of gpu02, and `mlx5_0:1` is far from it (SYS" in found.message
    assert "near it: mlx5_1:1" in found.message


def test_a_far_nic_of_the_same_node_or_of_none_is_told_as_such() -> None:
    (found,) = findings([TWO[0], {**TWO[1], "numa": 0}], env={"UCX_NET_DEVICES": "mlx5_0:1"})
    assert "(NODE, on the same NUMA node)" in found.message
    unsaid = [{"name": row["name"], "gpus": row["gpus"]} for row in TWO]
    (found,) = findings(unsaid, env={"UCX_NET_DEVICES": "mlx5_0:1"})
    assert "(not among its `gpus`)" in found.message


@pytest.mark.parametrize(
    "said", ["mlx5_1:1", "all", "mlx5_*", "^mlx5_0:1", "", " mlx5_1:1 ,", "mlx5_[1-7]:1"]
)
def test_a_near_nic_or_a_pattern_is_not_told(said: str) -> None:
    assert findings(TWO, env={"UCX_NET_DEVICES": said}) == []


def test_a_nic_that_is_not_declared_is_told_with_those_that_are() -> None:
    (found,) = findings(TWO, env={"UCX_NET_DEVICES": "mlx5_11:1"})
    assert found.rule == "NIC008" and "no `mlx5_11:1`, only mlx5_0:1, mlx5_1:1" in found.message
    assert found.hint and "did you mean" in found.hint
    (found,) = findings(TWO, env={"UCX_NET_DEVICES": "mlx5_1"})
    assert found.rule == "NIC008" and found.hint and "only with its port" in found.hint


def test_what_ucx_may_not_use_is_not_judged() -> None:
    tcp = {"UCX_TLS": "cuda_copy,tcp", "UCX_NET_DEVICES": "eth0"}
    assert findings(TWO, env=tcp) == []


def test_a_gpu_that_no_nic_is_near_is_told_once_for_a_host() -> None:
    found = findings([{**TWO[0], "gpus": [0, 1]}], env={}, count=2)
    assert [(each.rule, each.path) for each in found] == [("NIC004", ("hosts", 1, "nics"))]
    assert "GPU 7 of gpu02 is near none of these" in found[0].message


@pytest.mark.parametrize(
    ("tls", "machines", "expected"),
    [
        (None, 2, True),
        (None, 1, False),
        ("rc,cuda_copy", 1, True),
        ("all", 1, True),
        ("cuda_ipc,cuda_copy,tcp", 2, False),
        ("ib,tcp,cuda", 2, True),
        ("ud:aux,tcp,cuda", 2, True),
        ("^tcp", 2, True),
        ("^ib", 2, False),
        ("sm,self,cuda_copy", 2, False),
    ],
)
def test_rdma_is_used_where_ucx_may(tls: str | None, machines: int, expected: bool) -> None:
    asked = serving(1, 1, 1)
    asked["decoders"]["env"] = {} if tls is None else {"UCX_TLS": tls}
    topology, _ = survey(cluster(hosts=hosts(machines), serving=asked))
    (decoder,) = [each for each in topology.instances if each.role == "decoder"]
    assert uses_rdma(topology.spec, topology.instances, decoder) is expected


@given(st.permutations(TWO), st.sets(st.integers(0, 7), min_size=1))
def test_the_order_of_entries_changes_nothing(rows: list[dict[str, Any]], gpus: set[int]) -> None:
    assert near(host(rows), sorted(gpus)) == near(host(TWO), sorted(gpus, reverse=True))
