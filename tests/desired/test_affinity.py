"""Engines keep to NICs, CPUs and memory near their GPUs, and only where the spec declares them."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.desired import desire
from pdctl.state import File, Key
from pdctl.topology import resolve
from tests.desired.rendered import Engine, Rendered, rendered
from tests.topology.specs import cluster, hosts, serving
from tests.topology.test_affinity import ADDRESSES, TWO, with_addresses

OURS = {"UCX_NET_DEVICES", "VLLM_GPU_NIC_PCIE_MAPPING", "VLLM_NIC_SELECTION_VARS"}
PLACE = ("CPUAffinity", "NUMAPolicy", "NUMAMask")


def machines(nics: list[dict[str, Any]], count: int = 2, **gpus: Any) -> list[dict[str, Any]]:
    return [each | {"gpus": {"count": 8, **gpus}, "nics": nics} for each in hosts(count)]


def with_nics(
    nics: list[dict[str, Any]], *, asked: dict[str, Any] | None = None, stack: Any = None, **gpus: Any
) -> Rendered:
    more = {"stack": stack} if stack else {}
    return rendered(hosts=machines(nics, **gpus), serving=asked or serving(1, 1, 2, "nixl"), **more)


def place(engine: Engine) -> list[str]:
    return [value for key in PLACE for value in engine.setting("Service", key)]


@pytest.mark.parametrize("connector", ["nixl", "lmcache"])
def test_the_near_nic_and_the_cpus_of_its_socket(connector: str) -> None:
    found = with_nics(TWO, asked=serving(1, 1, 2, connector)).engines
    assert found["prefiller-0"].env["UCX_NET_DEVICES"] == "mlx5_0:1"
    assert found["decoder-0"].env["UCX_NET_DEVICES"] == "mlx5_1:1"
    assert place(found["prefiller-0"]) == ["0-3,8-11", "preferred", "0"]
    assert place(found["decoder-0"]) == ["4-7,12-15", "preferred", "1"]


@pytest.mark.parametrize(
    ("kinds", "tls"),
    [(("roce", "roce"), "^tcp"), (("ib", "ib"), "^tcp"), (("roce", "ethernet"), None), ((None, "ib"), None)],
)
def test_a_declared_network_of_rdma_leaves_no_tcp_to_fall_back_to(
    kinds: tuple[str | None, ...], tls: str | None
) -> None:
    rows = [
        row | {"gpus": {"count": 8}} | ({"network": {"gbit": 400, "kind": kind}} if kind else {})
        for row, kind in zip(hosts(2), kinds, strict=True)
    ]
    found = rendered(hosts=rows, serving=serving(1, 1, 2, "nixl")).engines
    assert {engine.env.get("UCX_TLS") for engine in found.values()} == {tls}


def test_an_instance_over_both_sockets_gets_both() -> None:
    found = with_nics(TWO, asked=serving(1, 1, 8, "nixl")).engines["decoder-0"]
    assert found.env["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_1:1"
    assert place(found) == ["0-15"]


def test_memory_and_cpus_can_be_told_alone() -> None:
    memory = [{name: value for name, value in row.items() if name != "cpus"} for row in TWO]
    assert place(with_nics(memory).engines["decoder-0"]) == ["preferred", "1"]
    cpus = [{name: value for name, value in row.items() if name != "numa"} for row in TWO]
    assert place(with_nics(cpus).engines["decoder-0"]) == ["4-7,12-15"]


def test_vllm_gives_each_rank_its_nic_where_it_can_and_the_addresses_are_known() -> None:
    rows = with_addresses()
    found = with_nics(rows, asked=serving(1, 1, 8, "nixl"), pci=ADDRESSES).engines["decoder-0"]
    pairs = dict(each.split("=") for each in found.env["VLLM_GPU_NIC_PCIE_MAPPING"].split(","))
    assert pairs == {at: rows[gpu // 4]["pci"] for gpu, at in enumerate(ADDRESSES)}
    assert found.env["VLLM_NIC_SELECTION_VARS"] == "UCX_NET_DEVICES:1"
    assert "UCX_NET_DEVICES" not in found.env  # vLLM would put its own in front of it
    old = with_nics(rows, asked=serving(1, 1, 8, "nixl"), stack={"vllm": "0.22.0"}, pci=ADDRESSES)
    assert old.engines["decoder-0"].env["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_1:1"
    assert "VLLM_GPU_NIC_PCIE_MAPPING" not in old.engines["decoder-0"].env


def test_another_port_is_kept_on_every_way() -> None:
    rows = with_addresses(port=2)
    found = with_nics(rows, asked=serving(1, 1, 8, "nixl"), pci=ADDRESSES).engines["decoder-0"]
    assert found.env["VLLM_NIC_SELECTION_VARS"] == "UCX_NET_DEVICES:2"
    assert with_nics(rows).engines["decoder-0"].env["UCX_NET_DEVICES"] == "mlx5_1:2"


@pytest.mark.parametrize(
    "env",
    [
        {"UCX_NET_DEVICES": "mlx5_1:1"},
        {"VLLM_GPU_NIC_PCIE_MAPPING": "a=b", "VLLM_NIC_SELECTION_VARS": "UCX_NET_DEVICES:1"},
    ],
)
def test_what_the_user_chose_stays_alone(env: dict[str, str]) -> None:
    asked = serving(1, 1, 8, "nixl")
    asked["decoders"]["env"] = env
    found = with_nics(with_addresses(), asked=asked, pci=ADDRESSES).engines["decoder-0"].env
    assert {name: found[name] for name in OURS & set(found)} == env


def test_engines_of_one_host_keep_to_nvlink_and_to_their_socket() -> None:
    """cuda_ipc carries their KV: a list of RDMA devices would take UCX_TLS's tcp away from it."""
    found = rendered(hosts=machines(TWO, count=1), serving=serving(1, 1, 2)).engines["decoder-0"]
    assert not OURS & set(found.env) and found.env["UCX_TLS"] == "cuda_ipc,cuda_copy,tcp"
    assert place(found) == ["4-7,12-15", "preferred", "1"]


def test_aggregated_servers_keep_to_their_socket_and_move_no_kv() -> None:
    asked = {"mode": "aggregated", "instances": {"count": 2, "tensor_parallel": 4}}
    found = rendered(hosts=machines(TWO), serving=asked).engines
    assert place(found["server-1"]) == ["4-7,12-15", "preferred", "1"]
    assert not any(OURS & set(engine.env) for engine in found.values())


@pytest.mark.parametrize("engine", ["simulator", {"device": "cpu"}])
def test_engines_without_gpus_are_near_nothing(engine: Any) -> None:
    model = {"id": "pdctl/tiny"}
    asked = serving(1, 1, 1, "nixl")
    found = rendered(hosts=machines(TWO), serving=asked, engine=engine, model=model).engines
    for each in found.values():
        assert not place(each) and not OURS & set(each.env)


def files(nics: list[dict[str, Any]], tp: int, connector: str) -> dict[Key, str]:
    spec = cluster(hosts=machines(nics), serving=serving(2, 2, tp, connector))
    return {
        key: resource.content.decode()
        for key, resource in desire(resolve(spec)).items()
        if isinstance(resource, File) and resource.content is not None
    }


@pytest.mark.parametrize("connector", ["nixl", "lmcache"])
@pytest.mark.parametrize("tp", [1, 2, 4])
def test_declared_nics_add_their_lines_and_change_no_other(tp: int, connector: str) -> None:
    without, declared = files([], tp, connector), files(TWO, tp, connector)
    assert without.keys() == declared.keys()
    changed = {key for key, text in declared.items() if text != without[key]}
    assert {key.id.rpartition(".")[2] for key in changed} == {"env", "service"}
    assert not any("proxy" in key.id for key in changed)
    for key in changed:
        old, new = without[key].splitlines(), declared[key].splitlines()
        added = [line for line in new if line not in old and "PDCTL_REVISION" not in line]
        assert added and all(line.startswith(("#", "UCX_NET_DEVICES=", *PLACE)) for line in added)
        assert [line for line in old if line not in new and "PDCTL_REVISION" not in line] == []
