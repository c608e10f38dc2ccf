"""What is looked at on a host before it is asked for a reboot, and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_driver, pdctl_reboot
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_record import Record

from pdctl.desired.packages import NOUVEAU

WANTED = {"why": ["x"], "driver": "580.95.05", "kernel": "", "ofed": False, "owed": False, "timeout_s": 60}
KERNEL = "6.8.0-64-generic"
FACTS: dict[str, Any] = {
    "next_kernel": KERNEL,
    "chosen_by": "the newest in /boot",
    "headers": True,
    "built": ["nvidia", "mlx5_core"],
    "libraries": {"libnvidia-compute-580-server": "580.95.05-0ubuntu0.22.04.2"},
}


@pytest.fixture(autouse=True)
def modinfo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One that tells the version in a file, as of the module for KERNEL."""
    tool, version = tmp_path / "modinfo", tmp_path / "version"
    tool.write_text(f'#!/bin/sh\n[ "$2" = {KERNEL} ] && cat {version}\n')
    tool.chmod(0o755)
    version.write_text("580.95.05\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return version


@pytest.mark.parametrize(
    ("wanted", "facts", "says"),
    [
        ({}, {}, ""),
        ({}, {"next_kernel": "", "built": []}, ""),
        ({"driver": ""}, {"built": []}, ""),
        ({}, {"built": []}, f"has no module nvidia: dkms autoinstall -k {KERNEL}, then apply again"),
        ({}, {"built": [], "headers": False}, f"apt-get install linux-headers-{KERNEL}, then dkms"),
        ({"ofed": True}, {"built": ["nvidia"]}, "has no module mlx5_core of OFED"),
        ({"kernel": "6.8.0-60-generic"}, {}, f"6.8.0-60-generic is pinned, and {KERNEL} boots next"),
        ({"driver": "580.159.03"}, {}, "has no module nvidia 580.159.03 (but 580.95.05)"),
    ],
)
def test_a_kernel_that_would_come_up_without_the_driver_is_not_booted(
    wanted: dict[str, Any], facts: dict[str, Any], says: str
) -> None:
    found = pdctl_reboot.unfit(WANTED | wanted, FACTS | facts)
    assert says in found and bool(found) == bool(says)


def test_a_host_without_modinfo_is_believed(modinfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modinfo.write_text("")
    assert pdctl_reboot.unfit(WANTED, FACTS) == ""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What the kernel says: `version` of the loaded module, `modules`."""
    version = tmp_path / "nvidia"
    monkeypatch.setattr(pdctl_driver, "VERSION", str(version))
    for place in (pdctl_reboot, pdctl_driver):
        monkeypatch.setattr(place, "loaded_modules", lambda: (tmp_path / "modules").read_text().split())
    (tmp_path / "modules").write_text("nvidia")
    loads(version, "580.95.05")
    return tmp_path


def loads(path: Path, version: str) -> None:
    path.write_text(f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n")


def test_after_the_reboot_module_and_user_space_are_the_pinned_one_and_nouveau_is_gone(machine: Path) -> None:
    assert pdctl_reboot.faults(WANTED, "", FACTS) == []
    (kernel,) = pdctl_reboot.faults(WANTED, "0.0.1-none", FACTS)
    assert "0.0.1-none was to boot" in kernel
    (machine / "modules").write_text("nouveau")
    (machine / "nvidia").write_text("")
    nouveau, module = pdctl_reboot.faults(WANTED, "", FACTS)
    assert "nouveau is loaded" in nouveau and "no nvidia module is loaded, not 580.95.05" in module
    assert pdctl_reboot.faults(WANTED | {"driver": ""}, "", FACTS) == []
    (machine / "modules").write_text("nvidia")
    loads(machine / "nvidia", "580.82.07")
    (old,) = pdctl_reboot.faults(WANTED, "", FACTS)
    assert old.startswith("module 580.82.07 is loaded, not 580.95.05")
    loads(machine / "nvidia", "580.95.05")
    (torn,) = pdctl_reboot.faults(WANTED, "", FACTS | {"libraries": {"nvidia-utils-580": "580.159.03-1"}})
    assert torn == "driver module 580.95.05 is loaded, and 580.159.03 is on disk"


BAN = "file:" + NOUVEAU.format("chat")
ENGINE = {"kind": "unit", "name": "pdctl-chat-decoder-0.service", "role": "decoder"}
PROXY = {"kind": "unit", "name": "pdctl-chat-proxy.service", "role": "proxy"}


def test_no_engine_starts_beside_another_driver_than_that_in_memory(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record(str(machine / "record.json"), "chat")
    on_disk = {"libnvidia-compute-580-server": ("580.159.03-0ubuntu1", "hold")}
    monkeypatch.setattr(pdctl_driver, "dpkg_status", lambda names: on_disk)
    pdctl_driver.refuse_torn([ENGINE], record)  # a driver that is not ours to keep
    record.rows[BAN] = {"kind": "file", "path": BAN.partition(":")[2]}
    with pytest.raises(Problem, match=r"580\.95\.05 is loaded, and 580\.159\.03 is on disk.*--allow-reboot"):
        pdctl_driver.refuse_torn([ENGINE, PROXY], record)
    pdctl_driver.refuse_torn([PROXY], record)
    loads(machine / "nvidia", "580.159.03")
    pdctl_driver.refuse_torn([ENGINE], record)
    (machine / "modules").write_text("nouveau")
    with pytest.raises(Problem, match="nouveau is loaded and has the GPUs"):
        pdctl_driver.refuse_torn([ENGINE], record)


def test_what_a_killed_apply_did_not_see_of_a_reboot_is_seen_before_engines_start(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdctl_driver, "dpkg_status", lambda names: {})
    record = Record(str(machine / "record.json"), "chat")
    record.rows[BAN] = {"kind": "file", "path": BAN.partition(":")[2]}
    record.reboot = {"boot": "an earlier one", "why": ["x"]}
    (machine / "nvidia").write_text("")
    with pytest.raises(Problem, match="it has rebooted, and no nvidia module is loaded"):
        pdctl_driver.refuse_torn([ENGINE], record)
    loads(machine / "nvidia", "580.95.05")
    pdctl_driver.refuse_torn([ENGINE], record)
    assert record.reboot is None
    record.reboot = {"boot": pdctl_driver.boot_id(), "why": ["x"]}
    pdctl_driver.refuse_torn([ENGINE], record)
    assert record.reboot is not None
