"""How far two PCI devices are apart, as `nvidia-smi topo -m` would say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.knowledge.addresses import pci_key, pci_text
from pdctl.topology.pci import Device, Relation, relation

ROOT = "/devices/pci0000:16/0000:16:01.0"
SWITCH = f"{ROOT}/0000:17:00.0"
GPU = Device(f"{SWITCH}/0000:18:00.0/0000:19:00.0", 0)
AZURE = "/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/4750-0001"
ROWS = {
    "two ports of one switch": (f"{SWITCH}/0000:18:08.0/0000:1e:00.0", 0, "PIX"),
    "two functions of one card": (f"{SWITCH}/0000:18:00.0/0000:19:00.1", 0, "PIX"),
    "a switch below the switch": (f"{SWITCH}/0000:18:08.0/0000:1e:00.0/0000:1f:00.0/0000:20:00.0", 0, "PXB"),
    "another switch below one root port": (f"{ROOT}/0000:30:00.0/0000:31:00.0/0000:32:00.0", 0, "PXB"),
    "another root port": ("/devices/pci0000:16/0000:16:02.0/0000:40:00.0", 0, "PHB"),
    "another host bridge of the node": ("/devices/pci0000:50/0000:50:01.0/0000:51:00.0", 0, "NODE"),
    "another node": ("/devices/pci0000:96/0000:96:01.0/0000:97:00.0", 1, "SYS"),
    "a function that a hypervisor passes through": (f"{AZURE}/pci0101:00/0101:00:00.0", 0, "NODE"),
    "a host bridge whose node is not known": ("/devices/pci0000:96/0000:96:01.0/0000:97:00.0", -1, None),
    "one switch, with the node not known": (f"{SWITCH}/0000:18:08.0/0000:1e:00.0", -1, "PIX"),
    "no PCI device": ("/devices/virtual/net/rxe0", 0, None),
    "no device": ("", -1, None),
    "a host bridge alone": ("/devices/pci0000:16", 0, None),
}


@pytest.mark.parametrize(("path", "numa", "apart"), ROWS.values(), ids=ROWS)
def test_the_path_tells_how_far_devices_are_apart(path: str, numa: int, apart: str | None) -> None:
    assert relation(GPU, Device(path, numa)) == apart
    assert relation(Device(path, numa), GPU) == apart


@given(st.text(), st.integers(-1, 3))
def test_any_text_is_some_relation_or_none(path: str, numa: int) -> None:
    assert relation(GPU, Device(path, numa)) in {None, *Relation}


def test_relations_are_ranked_by_nearness_and_say_what_they_mean() -> None:
    assert [each.rank for each in Relation] == [0, 1, 2, 3, 4]
    assert Relation.SYS.words == "SYS, on another NUMA node"


@pytest.mark.parametrize(
    ("text", "plain"),
    [("00000000:1B:00.0", "0000:1b:00.0"), ("0001:00:00.0", "0001:00:00.0"), ("1b:00.0", ""), ("[N/A]", "")],
)
def test_addresses_are_compared_by_their_numbers(text: str, plain: str) -> None:
    assert pci_text(text) == plain
    assert bool(pci_key(text)) == bool(plain) and pci_key(plain) == pci_key(text)
