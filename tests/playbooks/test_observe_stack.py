"""Which kernel boots next and what it has; which modules are loaded: read from files as hosts have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.pdctl_observe_stack import (
    SECURE_BOOT,
    built_modules,
    key_enrolled,
    loaded_modules,
    next_kernel,
    secure_boot,
    stack_facts,
)

OLD, NEW = "6.8.0-60-generic", "6.8.0-64-generic"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "boot/grub").mkdir(parents=True)
    (tmp_path / "etc/default/grub.d").mkdir(parents=True)
    for kernel in (OLD, NEW):
        (tmp_path / f"boot/vmlinuz-{kernel}").touch()
        (tmp_path / f"lib/modules/{kernel}").mkdir(parents=True)
    return tmp_path


def grub(root: Path, default: str, environment: str = "", snippet: str = "") -> None:
    (root / "etc/default/grub").write_text(f'# comment\nGRUB_DEFAULT="{default}"\nGRUB_TIMEOUT=0\n')
    (root / "boot/grub/grubenv").write_text(f"# GRUB Environment Block\n{environment}\n####")
    (root / "etc/default/grub.d/50-x.cfg").write_text(snippet)


def test_the_newest_kernel_boots_unless_something_else_is_said(root: Path) -> None:
    (root / "boot/vmlinuz-6.8.0-9-generic").touch()
    assert next_kernel(str(root)) == (NEW, "the newest in /boot")
    grub(root, "0")
    assert next_kernel(str(root)) == (NEW, "the newest in /boot")


@pytest.mark.parametrize(
    ("default", "environment", "snippet", "by"),
    [
        (f"Advanced options for Ubuntu>Ubuntu, with Linux {OLD}", "", "", "GRUB_DEFAULT"),
        (f"gnulinux-advanced-1f3c>gnulinux-{OLD}-advanced-1f3c", "", "", "GRUB_DEFAULT"),
        ("saved", f"saved_entry=gnulinux-{OLD}-advanced-1f3c", "", "grub-set-default"),
        ("0", f"next_entry=Ubuntu, with Linux {OLD}", "", "grub-reboot"),
        ("0", "", f"GRUB_DEFAULT='Ubuntu, with Linux {OLD}'\n", "GRUB_DEFAULT"),
    ],
)
def test_an_older_kernel_that_grub_is_told_to_boot(
    root: Path, default: str, environment: str, snippet: str, by: str
) -> None:
    grub(root, default, environment, snippet)
    assert next_kernel(str(root)) == (OLD, by)


def test_a_kernel_that_is_gone_is_not_believed(root: Path) -> None:
    grub(root, "Ubuntu, with Linux 5.15.0-1-generic")
    assert next_kernel(str(root)) == (NEW, "the newest in /boot")


def test_a_host_without_kernels_of_its_own_says_nothing(tmp_path: Path) -> None:
    assert next_kernel(str(tmp_path)) == ("", "")
    assert stack_facts(str(tmp_path))["built"] == []


def test_headers_are_there_when_the_link_leads_somewhere(root: Path) -> None:
    link = root / f"lib/modules/{NEW}/build"
    link.symlink_to(root / "usr/src/headers")
    assert stack_facts(str(root))["headers"] is False
    (root / "usr/src/headers").mkdir(parents=True)
    assert stack_facts(str(root))["headers"] is True


@pytest.mark.parametrize(
    ("text", "built"),
    [
        ("updates/dkms/nvidia.ko: kernel/x.ko\n", ["nvidia"]),
        ("kernel/nvidia-580srv-open/nvidia.ko.zst:\n", ["nvidia"]),
        ("kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko.zst:\n", []),
        ("updates/dkms/mlx5_core.ko.xz:\nextra/nvidia.ko:\n", ["nvidia", "mlx5_core"]),
        ("updates/dkms/nvidia-drm.ko: updates/dkms/nvidia.ko\n", []),
        ("", []),
    ],
)
def test_modules_that_depmod_knows(tmp_path: Path, text: str, built: list[str]) -> None:
    (tmp_path / "modules.dep").write_text(text)
    assert built_modules(str(tmp_path)) == built


@pytest.mark.parametrize(
    ("value", "on"), [(b"\6\0\0\0\1", True), (b"\6\0\0\0\0", False), (b"", False), (None, False)]
)
def test_the_firmware_says_whether_secure_boot_is_on(tmp_path: Path, value: bytes | None, on: bool) -> None:
    path = tmp_path / SECURE_BOOT
    path.parent.mkdir(parents=True)
    if value is not None:
        path.write_bytes(value)
    assert secure_boot(str(tmp_path)) is on


@pytest.mark.parametrize(
    ("said", "enrolled"), [("is already enrolled", True), ("is not enrolled", False), ("", False)]
)
def test_the_key_of_dkms_is_known_to_the_firmware(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, enrolled: bool
) -> None:
    tool = tmp_path / "mokutil"
    tool.write_text(f'#!/bin/sh\n[ "$1" = --test-key ] && echo "$2 {said}"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert not key_enrolled(str(tmp_path))
    (tmp_path / "var/lib/dkms").mkdir(parents=True)
    (tmp_path / "var/lib/dkms/mok.pub").touch()
    assert key_enrolled(str(tmp_path)) is enrolled


def test_loaded_modules_that_matter(tmp_path: Path) -> None:
    """Also those of a kernel that has no list of modules."""
    text = "nouveau 2334720 4 - Live 0x0\nnvidia_uvm 1 0 - Live 0x0\nib_umad 1 0 - Live 0x0\n"
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/modules").write_text(text)
    assert loaded_modules(str(tmp_path)) == ["nouveau", "ib_umad"]
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/i915").mkdir()
    assert loaded_modules(str(tmp_path)) == ["nouveau", "nvidia", "ib_umad"]
