"""What a host says of its GPUs and NICs, against the spec, from a tree like /sys to the finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from ansible.module_utils.pdctl_observe_pci import gpu_place, numa_nodes, rdma_nics
from pydantic import TypeAdapter

from pdctl.hosts.attached import declaration, nearest
from pdctl.hosts.nearness import nic_findings
from pdctl.hosts.observation import Facts
from pdctl.spec.finding import Finding
from pdctl.spec.load import inspect
from pdctl.topology.affinity import near
from pdctl.topology.judge import judge
from tests.hosts_unit.test_suitability import FACTS
from tests.spec.breaking import sound_but_for
from tests.sysfs import UP, device, nic, nodes, two_switches

Build = Callable[[Path], list[str]]
GPUS = "gpus: 8"
TWO = (
    '{name: mlx5_0, gpus: [0, 1, 2, 3], numa: 0, cpus: "0-47"}'
    ', {name: mlx5_1, gpus: [4, 5, 6, 7], numa: 1, cpus: "48-95"}'
)
SPEC = """\
hosts:
- {{name: gpu01, address: 10.0.0.11, {gpus}, nics: [{nics}]{more}}}
- {{name: gpu02, address: 10.0.0.12, gpus: 8}}
serving:
  connector: nixl
  prefillers: {{tensor_parallel: {tp}, hosts: [gpu02]}}
  decoders: {{tensor_parallel: {tp}, hosts: [gpu01], env: {{{env}}}}}
"""


def facts(root: Path, build: Build = two_switches) -> Facts:
    """As the probe reads them from `root`, and as the controller takes them."""
    gpus = [
        {**vars(FACTS.gpus[0]), "index": index, "pci_bus_id": at, **gpu_place(at, str(root))}
        for index, at in enumerate(build(root))
    ]
    rest = {name: value for name, value in vars(FACTS).items() if name != "gpus"}
    plain = rest | {"gpus": gpus, "nics": rdma_nics(str(root)), "numa_nodes": numa_nodes(str(root))}
    return TypeAdapter(Facts).validate_python(plain)


def found(
    seen: Facts,
    nics: str = TWO,
    *,
    gpus: str = GPUS,
    more: str = "",
    env: str = "",
    tp: int = 1,
    stack: str = "",
) -> list[Finding]:
    text = SPEC.format(gpus=gpus, nics=nics, more=more, env=env, tp=tp) + stack
    return list(nic_findings(judge(inspect(sound_but_for(text), "c")).sound(), 0, seen))


def one(findings: list[Finding]) -> tuple[str, str, str]:
    (each,) = findings
    return each.rule, each.message, each.hint or ""


def test_a_host_that_is_as_declared_is_silent(tmp_path: Path) -> None:
    assert found(facts(tmp_path)) == []


def test_the_line_to_paste_is_exact_and_makes_the_host_silent(tmp_path: Path) -> None:
    seen = facts(tmp_path)
    rule, message, hint = one(found(seen, ""))
    assert rule == "FACT019" and message.startswith("gpu01 has RDMA NICs (mlx5_0:1, mlx5_1:1)")
    assert hint == f"add `nics: [{TWO}]` to this host"
    assert found(seen, hint.partition("nics: [")[2].rpartition("]`")[0]) == []


def test_the_line_holds_addresses_where_vllm_can_use_them(tmp_path: Path) -> None:
    seen = facts(tmp_path)
    _, _, hint = one(found(seen, "", tp=8))
    assert 'cpus: "0-47", pci: "0000:1e:00.0"}' in hint and 'the key `pci: ["0000:19:00.0", ' in hint
    pasted = hint.partition("nics: [")[2].partition("]` to")[0]
    addresses = hint.partition("`pci: ")[2].rpartition("`")[0]
    gpus = f"gpus: {{count: 8, pci: {addresses}}}"
    assert found(seen, pasted, gpus=gpus, tp=8) == []
    text = SPEC.format(gpus=gpus, nics=pasted, more="", env="", tp=8)
    topology = judge(inspect(sound_but_for(text), "c")).sound()
    assert len(near(topology.spec.hosts[0], range(8)).pairs) == 8
    _, _, old = one(found(seen, "", tp=8, stack='stack: {vllm: "0.22.0", lmcache: "0.5.6"}\n'))
    assert "pci" not in old


def test_ports_that_are_down_are_not_to_be_declared_and_declared_ones_are_told(tmp_path: Path) -> None:
    def build(root: Path) -> list[str]:
        addresses = two_switches(root)
        (root / "class/infiniband/mlx5_1/ports/1/state").write_text("1: DOWN\n")
        return addresses

    seen = facts(tmp_path, build)
    rule, message, hint = one(found(seen))
    assert rule == "FACT014" and "gpu01 has `mlx5_1:1` DOWN (LinkUp)" in message and "ibv_devinfo" in hint
    _, _, hint = one(found(seen, ""))
    assert "mlx5_1" not in hint and "{name: mlx5_0, gpus: [0, 1, 2, 3], numa: 0" in hint


def test_with_no_port_up_there_is_nothing_to_paste(tmp_path: Path) -> None:
    def build(root: Path) -> list[str]:
        nodes(root, 1)
        nic(root, "mlx5_0", device(root, "pci0000:16/0000:16:01.0/0000:17:00.0", 0), "1: DOWN")
        return []

    seen = replace(facts(tmp_path, build), gpus=FACTS.gpus)
    rule, message, hint = one(found(seen, ""))
    assert rule == "FACT019" and "no port of them is active" in message and "nics: [" not in hint


def test_a_host_that_does_not_tell_distances_is_not_guessed_at(tmp_path: Path) -> None:
    def build(root: Path) -> list[str]:
        nodes(root, 2)
        nic(root, "mlx5_0", device(root, "pci0000:16/0000:16:01.0/0000:17:00.0", -1))
        device(root, "pci0000:96/0000:96:01.0/0000:97:00.0", -1)
        return ["00000000:97:00.0"]

    seen = facts(tmp_path, build)
    assert nearest(seen, 0) == (None, []) and declaration(seen, addresses=False) == ""
    rule, _, hint = one(found(seen, ""))
    assert rule == "FACT019" and "nvidia-smi topo -m" in hint


def test_on_a_host_of_one_node_devices_without_a_node_are_on_it(tmp_path: Path) -> None:
    def build(root: Path) -> list[str]:
        nodes(root, 1)
        nic(root, "mlx5_0", device(root, "pci0000:16/0000:16:01.0/0000:17:00.0", -1))
        device(root, "pci0000:96/0000:96:01.0/0000:97:00.0", -1)
        return ["00000000:97:00.0"]

    assert declaration(facts(tmp_path, build), addresses=False) == "nics: [{name: mlx5_0, gpus: [0]}]"


def test_a_gpu_with_several_nics_as_near_gets_them_all(tmp_path: Path) -> None:
    def build(root: Path) -> list[str]:
        addresses = two_switches(root)
        more = "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:09.0/0000:1f:00.0"
        nic(root, "mlx5_10", device(root, more, 0), UP, UP)
        nic(root, "mlx5_9", device(root, "pci0000:50/0000:50:01.0/0000:51:00.0", 0))  # NODE: not the nearest
        return addresses

    line = declaration(facts(tmp_path, build), addresses=False)
    assert [part.split(",")[0] for part in line.split("name: ")[1:]] == [
        "mlx5_0",
        "mlx5_1",
        "mlx5_10",
        "mlx5_10",
    ]
    assert "{name: mlx5_10, port: 2, gpus: [0, 1, 2, 3], numa: 0" in line


def test_a_nic_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    seen = facts(tmp_path)
    rule, message, _ = one(found(seen, f"{TWO}, {{name: mlx5_2, gpus: [7]}}"))
    assert rule == "FACT013" and "gpu01 has no `mlx5_2:1`, only mlx5_0:1, mlx5_1:1" in message
    rule, message, _ = one(found(seen, f"{TWO}, {{name: mlx5_1, port: 2, gpus: [7]}}"))
    assert rule == "FACT013" and "no `mlx5_1:2`" in message
    rule, message, _ = one(found(replace(seen, nics=())))
    assert rule == "FACT013" and "no RDMA device, the spec declares mlx5_0:1, mlx5_1:1" in message


def test_a_far_nic_is_told_with_gpu_relation_and_the_near_one(tmp_path: Path) -> None:
    swapped = "{name: mlx5_1, gpus: [0, 1, 2, 3]}, {name: mlx5_0, gpus: [4, 5, 6, 7]}"
    first, second = found(facts(tmp_path), swapped)
    assert first.rule == second.rule == "FACT015" and first.path == ("hosts", 0, "nics", 0, "gpus")
    assert first.message == (
        "gpu01 has `mlx5_1:1` far from GPU 0, 1, 2, 3 (SYS, on another NUMA node); mlx5_0:1 is near"
        " (PIX, on one PCIe switch)"
    )


def test_nodes_that_differ_or_do_not_exist_are_told(tmp_path: Path) -> None:
    seen = facts(tmp_path)
    rule, message, hint = one(found(seen, TWO.replace("numa: 1", "numa: 0")))
    assert rule == "FACT016" and "GPU 4, 5, 6, 7 on NUMA node 1, the spec says 0" in message
    assert hint == "set `numa: 1`"
    rule, message, _ = one(found(seen, TWO.replace("numa: 1", "numa: 2")))
    assert rule == "FACT017" and "no NUMA node 2, only 0, 1" in message


def test_cpus_of_another_node_are_told_and_fewer_are_not(tmp_path: Path) -> None:
    seen = facts(tmp_path)
    rule, message, hint = one(found(seen, TWO.replace('"48-95"', '"40-60"')))
    assert rule == "FACT016" and "GPU 4, 5, 6, 7 near the CPUs 48-95, the spec says 40-60" in message
    assert hint == 'set `cpus: "48-95"`'
    assert found(seen, TWO.replace('"48-95"', '"50-90"')) == []


def test_addresses_that_differ_are_told(tmp_path: Path) -> None:
    seen = facts(tmp_path)
    rule, message, _ = one(found(seen, TWO.replace("numa: 0", 'pci: "0000:1d:00.0"')))
    assert rule == "FACT018" and "mlx5_0 at 0000:1e:00.0, the spec says 0000:1d:00.0" in message
    there = [gpu.pci_bus_id for gpu in seen.gpus]
    gpus = "gpus: {count: 8, pci: [" + ", ".join(f'"{at}"' for at in [there[1], there[0], *there[2:]]) + "]}"
    first, second = found(seen, gpus=gpus)
    assert first.rule == second.rule == "FACT018" and first.path == ("hosts", 0, "gpus", "pci", 0)
    assert (
        found(seen, gpus=gpus.replace(there[1], "x").replace(there[0], there[1]).replace("x", there[0])) == []
    )


def test_a_far_nic_that_was_chosen_by_hand_is_told_where_none_is_declared(tmp_path: Path) -> None:
    rule, message, hint = one(found(facts(tmp_path), "", env='UCX_NET_DEVICES: "mlx5_0:1"'))
    assert (
        rule == "FACT020"
        and "`mlx5_0:1` far from GPU 7 (SYS" in message
        and "decoder-0 is to use it" in message
    )
    assert "mlx5_1:1 is near" in message and "remove" in hint


def test_near_ones_chosen_by_hand_are_not_told_and_need_no_line(tmp_path: Path) -> None:
    assert found(facts(tmp_path), "", env='UCX_NET_DEVICES: "mlx5_1:1,eth0"') == []


def test_a_port_that_is_down_and_chosen_by_hand_is_told(tmp_path: Path) -> None:
    seen = facts(tmp_path)
    down = tuple(replace(each, ports=(replace(each.ports[0], state="DOWN"),)) for each in seen.nics)
    rule, message, _ = one(found(replace(seen, nics=down), "", env='UCX_NET_DEVICES: "mlx5_1:1"'))
    assert rule == "FACT014" and "`mlx5_1:1` DOWN" in message and "decoder-0" in message


@pytest.mark.parametrize("nics", [TWO, ""])
def test_a_network_of_another_kind_is_told(nics: str, tmp_path: Path) -> None:
    rules = found(facts(tmp_path), nics, more=", network: {gbit: 400, kind: roce}")
    assert rules[-1].rule == "FACT021" and "on InfiniBand, `network.kind` says roce" in rules[-1].message
    assert rules[-1].hint == "set `kind: ib`"
    rules = found(facts(tmp_path / "again"), nics, more=", network: {gbit: 400, kind: ib}")
    assert "FACT021" not in {each.rule for each in rules}


def test_without_rdma_in_use_nothing_is_asked_for(tmp_path: Path) -> None:
    alone = "hosts: [{name: gpu01, address: 10.0.0.11, gpus: 8}]\n"
    topology = judge(inspect(sound_but_for(alone), "c")).sound()
    assert list(nic_findings(topology, 0, facts(tmp_path))) == []
