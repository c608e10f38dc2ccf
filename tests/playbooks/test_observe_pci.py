"""What a host's /sys says of RDMA NICs and GPUs, broken trees included."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.pdctl_observe_pci import gpu_place, numa_nodes, rdma_nics

from tests.sysfs import UP, device, nic, nodes, two_switches

NOWHERE = {"pci": "", "path": "", "numa": -1, "cpus": ""}
GPU = "pci0000:16/0000:16:01.0/0000:17:00.0"


def test_nics_are_told_with_their_place_and_ports(tmp_path: Path) -> None:
    two_switches(tmp_path)
    first, second = rdma_nics(str(tmp_path))
    assert first == {
        "name": "mlx5_0",
        "pci": "0000:1e:00.0",
        "path": "/devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:08.0/0000:1e:00.0",
        "numa": 0,
        "cpus": "0-47",
        "ports": [
            {
                "port": 1,
                "state": "ACTIVE",
                "physical": "LinkUp",
                "link": "InfiniBand",
                "rate": "400 Gb/sec (4X NDR)",
            }
        ],
    }
    assert (second["name"], second["numa"]) == ("mlx5_1", 1)
    assert numa_nodes(str(tmp_path)) == [0, 1]


def test_a_gpu_is_found_by_the_address_that_nvidia_smi_prints(tmp_path: Path) -> None:
    addresses = two_switches(tmp_path)
    place = gpu_place(addresses[5], str(tmp_path))
    assert place["path"].endswith("/0000:98:01.0/0000:9a:00.0") and (place["numa"], place["cpus"]) == (
        1,
        "48-95",
    )


def test_a_nic_tells_every_port_and_its_state(tmp_path: Path) -> None:
    at = device(tmp_path, GPU, 0)
    nic(tmp_path, "mlx5_0", at, UP, "1: DOWN", *["2: INIT"] * 8, link="Ethernet")
    (row,) = rdma_nics(str(tmp_path))
    assert [port["port"] for port in row["ports"]] == list(range(1, 11))
    assert [port["state"] for port in row["ports"][:3]] == ["ACTIVE", "DOWN", "INIT"]
    assert row["ports"][1]["physical"] == "Disabled" and row["ports"][0]["link"] == "Ethernet"


def test_a_host_without_rdma_or_numa_says_so(tmp_path: Path) -> None:
    assert rdma_nics(str(tmp_path)) == [] and numa_nodes(str(tmp_path)) == []
    assert gpu_place("00000000:17:00.0", str(tmp_path)) == NOWHERE


def test_broken_trees_are_told_as_far_as_they_go(tmp_path: Path) -> None:
    nodes(tmp_path, 1)
    silent = device(tmp_path, "pci0000:00/0000:00:01.0", None)
    nic(tmp_path, "mlx5_0", silent)
    nic(tmp_path, "mlx5_1", device(tmp_path, "pci0000:00/0000:00:02.0", -1))
    nic(tmp_path, "rxe0", None, link="Ethernet")
    (tmp_path / "class/infiniband/mlx5_0/ports/1/state").unlink()
    (tmp_path / "class/infiniband/mlx5_1/ports/1/rate").unlink()
    (tmp_path / "class/infiniband/mlx5_1/ports/1/rate").mkdir()  # unreadable for root, too
    (tmp_path / "class/infiniband/gone").symlink_to(tmp_path / "nowhere")
    gone, without, negative, software = rdma_nics(str(tmp_path))
    assert gone == {"name": "gone", **NOWHERE, "ports": []}
    assert without["numa"] == negative["numa"] == -1 and without["pci"] == "0000:00:01.0"
    assert without["ports"][0]["state"] == "" and negative["ports"][0]["rate"] == ""
    assert software["pci"] == "" and software["ports"][0]["state"] == "ACTIVE"
    for odd in ("", "[N/A]", "0", "../../etc", "17:00.0"):
        assert gpu_place(odd, str(tmp_path))["path"] == ""


def test_the_function_of_a_virtual_machine_keeps_its_own_domain(tmp_path: Path) -> None:
    path = "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001/pci0001:00/0001:00:00.0"
    device(tmp_path, path, 0)
    assert gpu_place("00000001:00:00.0", str(tmp_path))["path"] == f"/devices/{path}"
