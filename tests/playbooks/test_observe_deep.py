"""What `doctor` asks hosts for besides: outputs of nvidia-smi as drivers print them, whole and broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.pdctl_observe_deep import (
    addresses,
    deep_facts,
    parse_fabric,
    parse_links,
    parse_topology,
)

# The head is underlined, in a pipe too; columns of NICs and affinity follow those of GPUs.
MATRIX = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tSYS\tPIX\t0-47,96-143\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNODE\tNODE\t0-47,96-143\t0\t\tN/A\n"
    "GPU2\tSYS\tNODE\t X \tSYS\t48-95,144-191\t1\t\tN/A\n"
    "NIC0\tPIX\tNODE\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)
LINKS = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-2222-3333-4444-555555555555)
     Link 0: 26.562 GB/s
     Link 1: <inactive>
     Link 2: <inactive>
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-66666666-7777-8888-9999-000000000000)
     Link 0: 26.562 GB/s
     Link 1: 26.562 GB/s
""".replace("    ", "\t")
SAID = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"


def test_the_matrix_tells_what_is_between_each_pair_of_gpus() -> None:
    assert parse_topology(MATRIX) == {"0-1": "NV18", "0-2": "SYS", "1-2": "NODE"}
    assert parse_topology(MATRIX.replace("\x1b[4m", "").replace("\x1b[0m", "")) == parse_topology(MATRIX)


def test_one_gpu_has_no_pairs() -> None:
    assert parse_topology("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\tN/A\n") == {}


def test_links_that_are_down_are_counted() -> None:
    assert parse_links(LINKS) == {"0": 2, "1": 0}


def test_gpus_that_a_fabric_takes_in_are_told_with_their_state() -> None:
    text = "0, Completed, Success\n1, In Progress, N/A\n2, N/A, N/A\n3, [N/A], [N/A]\n"
    assert parse_fabric(text) == {"0": ["Completed", "Success"], "1": ["In Progress", "N/A"]}


@pytest.mark.parametrize("text", ["", SAID, 'Field "fabric.state" is not a valid field to query.\n\n'])
def test_a_driver_that_fails_tells_nothing(text: str) -> None:
    assert parse_topology(text) == {} and parse_links(text) == {} and parse_fabric(text) == {}


def test_names_are_looked_up_as_the_host_does() -> None:
    found = addresses(["localhost", "nowhere.invalid"])
    assert found["localhost"] and found["nowhere.invalid"] == []


def test_nothing_is_asked_of_gpus_where_there_is_no_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert deep_facts({"gpus": True, "names": []}) == {"names": {}, "ucx": {}}


def test_each_answer_stands_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "matrix").write_text(MATRIX)
    (tmp_path / "nvidia-smi").write_text(
        f'#!/bin/sh\ncase "$1" in topo) cat {tmp_path}/matrix;; *) exit 9; esac\n'
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = deep_facts({"gpus": True})
    assert found["links"]["0-1"] == "NV18" and found["inactive"] == {} and found["fabric"] == {}
