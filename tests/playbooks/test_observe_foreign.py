"""Who else is on our ports and GPUs, told from real sockets and processes, and a stub of nvidia-smi."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from ansible.module_utils import pdctl_observe_foreign
from ansible.module_utils.pdctl_observe_facts import loaded_driver
from ansible.module_utils.pdctl_observe_foreign import (
    foreign,
    foreign_gpus,
    foreign_ports,
    meets,
    parse_apps,
)

from tests.playbooks.conftest import needs_root

ME = os.getpid()
UUID = "GPU-00000001-1111-2222-3333-444444444444"
GPUS = [{"index": 0, "uuid": UUID.replace("1", "0", 1)}, {"index": 1, "uuid": UUID}]


def test_a_listener_on_our_port_is_told_with_its_process_and_whose_port_it_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        [row] = foreign_ports([[port, "127.0.0.1", "decoder-0"]], "chat", [])
    assert (row["kind"], row["subject"], row["instance"], row["pid"]) == ("port", str(port), "decoder-0", ME)
    assert row["process"] and row["user"] and "argv" not in row


def test_a_listener_that_is_in_nobodys_way_is_not_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert foreign_ports([[port, "198.18.0.10", "decoder-0"]], "chat", []) == []
        assert foreign_ports([[port + 1, "127.0.0.1", "decoder-0"]], "chat", []) == []
        assert len(foreign_ports([[port, "0.0.0.0", "proxy"]], "chat", [])) == 1


@pytest.mark.parametrize(
    ("one", "two", "met"),
    [("0.0.0.0", "10.0.0.1", True), ("::", "10.0.0.1", True), ("10.0.0.1", "10.0.0.2", False)],
)
def test_addresses_meet_when_one_is_any(one: str, two: str, met: bool) -> None:
    assert meets(one, two) is met


def test_what_our_own_units_listen_on_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        claimed = [[server.getsockname()[1], "127.0.0.1", "decoder-0"]]
        monkeypatch.setattr(pdctl_observe_foreign, "members", lambda unit: [ME])
        assert foreign_ports(claimed, "chat", ["pdctl-chat-decoder-0.service"]) == []
        monkeypatch.setattr(pdctl_observe_foreign, "members", lambda unit: [])
        monkeypatch.setattr(pdctl_observe_foreign, "unit_of", lambda pid: "pdctl-chat-decoder-0.service")
        assert foreign_ports(claimed, "chat", ["pdctl-chat-decoder-0.service"]) == []
        monkeypatch.setattr(pdctl_observe_foreign, "unit_of", lambda pid: "pdctl-other-decoder-0.service")
        assert len(foreign_ports(claimed, "chat", [])) == 1


def smi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_process_on_our_gpu_is_told_and_one_on_another_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(tmp_path, monkeypatch, f"echo '{UUID}, {ME}, 4096'")
    [row] = foreign_gpus({"1": "decoder-0"}, "chat", GPUS, [])
    assert (row["kind"], row["subject"], row["instance"], row["memory_mib"]) == (
        "gpu",
        "1",
        "decoder-0",
        4096,
    )
    assert row["process"] == Path(f"/proc/{ME}/comm").read_text().strip()
    assert foreign_gpus({"0": "prefiller-0"}, "chat", GPUS, []) == []


def test_a_process_that_has_ended_meanwhile_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(tmp_path, monkeypatch, f"echo '{UUID}, 4194304, 4096'")
    assert foreign_gpus({"1": "decoder-0"}, "chat", GPUS, []) == []


def test_an_nvidia_smi_that_fails_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, monkeypatch, "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    notes: list[str] = []
    assert foreign_gpus({"1": "decoder-0"}, "chat", GPUS, notes) == []
    assert notes == ["nvidia-smi: Failed to initialize NVML: Driver/library version mismatch"]


@needs_root
def test_all_of_it_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, monkeypatch, f"echo '{UUID}, {ME}, [N/A]'")
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports = [[server.getsockname()[1], "127.0.0.1", "decoder-0"]]
        rows = foreign({"ports": ports, "gpus": {"1": "decoder-0"}}, "chat", [], GPUS, [])
    assert [row["kind"] for row in rows] == ["port", "gpu"] and rows[1]["memory_mib"] is None
    assert foreign({}, "chat", [], GPUS, []) == []


def test_lines_of_nvidia_smi_that_are_none_are_left_out() -> None:
    text = f"{UUID}, 12, 3\n{UUID}, 13, [N/A]\nNo running processes found\n\n"
    assert parse_apps(text) == [(UUID, 12, 3), (UUID, 13, None)]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x@y)\n"
            "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04.2)\n",
            "580.95.05",
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n",
            "535.104.05",
        ),
        ("", ""),
    ],
)
def test_the_loaded_driver_is_that_of_the_kernel_module(text: str, version: str) -> None:
    assert loaded_driver(text) == version
