"""What slows engines on GPUs down or keeps them from starting, beside the driver: told where it matters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pdctl.desired import desire
from pdctl.hosts.observation import Nic, NicPort, Observation
from pdctl.hosts.questions import questions
from pdctl.hosts.ready import Deep, HugePages, Ready
from pdctl.hosts.suitability import Glance, unsuited
from pdctl.plan.machine import Machine
from pdctl.spec.load import inspect
from pdctl.topology.judge import judge
from tests.hosts_unit.test_suitability import FACTS, SPEC, found, told
from tests.spec.breaking import sound_but_for

WELL = Ready(8, ("identity",), (), True, HugePages(), "unlimited", "1048576")
NIC = Nic("mlx5_0", "", "", -1, (NicPort(1, "ACTIVE", "LinkUp", "InfiniBand", "400 Gb/sec"),))
# Two engines of one host talk over its own memory, unless told to use its NICs.
RDMA = SPEC + (
    "serving: {prefillers: {env: {UCX_TLS: 'rc,cuda_copy', UCX_NET_DEVICES: 'mlx5_0:1'}},"
    " decoders: {env: {UCX_TLS: 'rc,cuda_copy', UCX_NET_DEVICES: 'mlx5_0:1'}}}\n"
)
LAB = (
    "hosts: [{name: gpu01, address: 198.18.0.10, os: ubuntu-22.04}]\n"
    "engine: simulator\nmodel: {id: pdctl/tiny}\n"
)
PEERMEM = Machine(modules=("nvidia", "nvidia_peermem"))


def rules(spec: str = SPEC, **facts: Any) -> list[str]:
    return [rule for rule, _ in told(found(spec, **facts))]


def test_a_host_that_is_ready_is_silent() -> None:
    assert rules(ready=WELL) == []
    assert rules(RDMA, ready=WELL, kernel="6.8.0-60-generic", nics=(NIC,)) == []


@pytest.mark.parametrize(
    ("change", "rule", "says"),
    [
        ({"iommu": ("DMA-FQ", "identity")}, "FACT025", "IOMMU domains of type DMA-FQ"),
        ({"memlock": "8388608"}, "FACT028", "lock 8388608 bytes of memory at most"),
        ({"nofile": "4096"}, "FACT029", "open 4096 files at most, engines need 65536"),
    ],
)
def test_each_lack_is_told_and_only_where_engines_use_gpus(
    change: dict[str, Any], rule: str, says: str
) -> None:
    ready = replace(WELL, **change)
    ((one, message),) = told(found(ready=ready))
    assert one == rule and says in message
    assert rules(LAB, ready=ready) == []


def test_bridges_that_redirect_are_told_where_something_crosses_them() -> None:
    ready = replace(WELL, redirects=("0000:17:00.0", "0000:18:00.0", "0000:18:01.0", "0000:18:02.0"))
    assert rules(ready=ready) == []  # one board, joined by NVSwitches, and no NIC
    pcie = SPEC.replace("H100-SXM-80GB", "L40S")
    rows = [message for rule, message in told(found(pcie, ready=ready)) if rule == "FACT026"]
    assert len(rows) == 1 and "0000:17:00.0, 0000:18:00.0, 0000:18:01.0 and 1 more)" in rows[0]
    assert rules(RDMA, ready=ready, kernel="6.8.0", nics=(NIC,)) == ["FACT026"]


@pytest.mark.parametrize(
    ("opened", "kernel", "stack", "lacks"),
    [
        (True, "5.15.0-100-generic", Machine(), False),
        (True, "5.4.0-100-generic", Machine(), True),
        (False, "6.8.0-60-generic", Machine(), True),
        (False, "5.4.0-100-generic", PEERMEM, False),
    ],
)
def test_kv_needs_peermem_or_dma_buf_to_go_from_gpus_to_nics(
    opened: bool, kernel: str, stack: Machine, lacks: bool
) -> None:
    facts = {"ready": replace(WELL, open_module=opened), "kernel": kernel, "stack": stack}
    assert (rules(RDMA, nics=(NIC,), **facts) == ["FACT027"]) is lacks
    down = replace(NIC, ports=(replace(NIC.ports[0], state="DOWN"),))
    assert "FACT027" not in rules(RDMA, nics=(down,), **facts) and rules(**facts) == []


def test_gpus_outside_the_fabric_are_told_once_its_manager_is_installed() -> None:
    fabric = {0: ("In Progress", "N/A"), 7: ("Completed", "Success"), 3: ("In Progress", "N/A")}
    deep = Deep(fabric=fabric, fabric_manager="failed", links={"0-7": "SYS"})
    ((rule, message),) = told(found(ready=WELL, deep=deep))
    assert rule == "FACT031" and "GPU 0 is In Progress N/A; nvidia-fabricmanager is failed" in message


def test_gpus_that_nvlink_does_not_join_are_told() -> None:
    deep = Deep(links={"0-7": "SYS", "1-2": "PHB"}, inactive={0: 2, 1: 18, 7: 0})
    rows = told(found(ready=WELL, deep=deep))
    assert [rule for rule, _ in rows] == ["FACT030", "FACT030"]
    assert "does not join: 0-7 SYS" in rows[0][1] and "down: 2 of GPU 0" in rows[1][1]
    assert rules(ready=WELL, deep=Deep(links={"0-7": "NV18"}, inactive={0: 0, 7: 0})) == []


def test_names_that_a_host_cannot_look_up_are_told() -> None:
    ((rule, message),) = told(found(deep=Deep(names={"huggingface.co": (), "gpu02": ("10.0.0.2",)})))
    assert rule == "FACT032" and message == "gpu01 cannot look up huggingface.co"


def test_a_host_is_asked_for_the_hub_only_where_its_engines_go_there() -> None:
    def names(text: str) -> list[str]:
        return list(questions(judge(inspect(sound_but_for(text), "c")).sound())["gpu01"]["names"])

    assert names(SPEC) == ["huggingface.co"]
    assert names(SPEC.replace("20b}", "20b, path: /models/x}")) == []
    proxy = "serving: {prefillers: {env: {HTTPS_PROXY: 'http://p:3128'}}, decoders: {}}\n"
    assert names(SPEC + proxy) == [] and names(LAB) == []


def test_a_fabric_whose_manager_is_still_to_be_installed_is_no_fault() -> None:
    topology = judge(inspect(sound_but_for(SPEC), "c")).sound()
    deep = Deep(fabric={0: ("In Progress", "N/A")}, fabric_manager="inactive")
    seen = Observation({}, {}, {}, {}, {"gpu01": replace(FACTS, deep=deep)}, {}, {}, {})
    there = {key: each for key, each in desire(topology).items() if "fabricmanager" in key.id}
    assert len(there) == 1
    for state, rules in (({}, []), (there, ["FACT031"])):
        glance = Glance(replace(seen, state=state), there, 999.0, 1001.0)
        assert [each.rule for each in unsuited(topology, glance)] == rules
