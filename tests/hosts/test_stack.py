"""The stack's packages on a real host: pinned, held, moved behind pdctl's back, told and mended."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.line import Line
from tests.hosts.plays import directory, play, request, user, web_unit
from tests.hosts.stacked import (
    CALLS,
    LAYERS,
    NOUVEAU,
    PROC,
    SPEC,
    calls,
    diff,
    held,
    stack_on_host,
    versions,
)
from tests.hosts.vendors import DRIVER, NEWER, PARTS, PINNED

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="makes packages with dpkg-deb"),
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with stack_on_host(tmp_path_factory) as line:
        yield line


@pytest.fixture
def line(hosts: Line) -> Line:
    hosts.inside(f"rm -f /etc/initramfs-broken {CALLS}")
    hosts.apply("--no-verify", *LAYERS)
    hosts.inside(f"rm -f {CALLS}")
    return hosts


def test_the_whole_family_of_the_driver_is_at_its_pin_and_held(line: Line) -> None:
    found = versions(line)
    fabric = {"cuda-drivers-fabricmanager-580", "nvidia-fabricmanager-580"}
    assert {found[name] for name in (DRIVER, *PARTS, *fabric)} == {PINNED}
    assert found["nvlsm"] == "2025.10.14-1"
    assert {DRIVER, *PARTS, *fabric, "nvlsm", "doca-ofed", "cuda-nvcc-13-0"} <= held(line)
    assert diff(line)["empty"]
    assert line.apply("--no-verify", "--json", *LAYERS).json["did"] == {}


def test_no_upgrade_moves_what_is_pinned(line: Line) -> None:
    """Not even once the holds are gone: the pins are stronger than a newer version."""
    line.inside(f"apt-mark unhold {DRIVER} {' '.join(PARTS)}")
    simulated = line.inside("apt-get -s dist-upgrade")
    assert not [row for row in simulated.splitlines() if row.startswith("Inst ") and "nvidia" in row]
    blacklist = line.inside("apt-config dump Unattended-Upgrade::Package-Blacklist")
    assert '"^libnvidia-";' in blacklist and '"^nvidia-";' in blacklist and '"^nvlsm$";' in blacklist
    (row,) = diff(line, "--drift-only")["drift"]
    assert row["id"] == f"package:{DRIVER}" and "hold no -> yes" in row["what"]
    line.apply("--no-verify", *LAYERS)
    assert {DRIVER, *PARTS} <= held(line) and diff(line)["empty"]


def test_an_upgrade_behind_pdctls_back_is_told_and_taken_back(line: Line) -> None:
    line.inside(f"apt-mark unhold {DRIVER} {' '.join(PARTS)} nvidia-fabricmanager-580")
    moved = " ".join(f"{name}={NEWER}" for name in (DRIVER, *PARTS, "nvidia-fabricmanager-580"))
    line.inside(
        f"apt-get install -qy --allow-change-held-packages {moved} cuda-drivers-fabricmanager-580={NEWER}"
    )
    rows = {row["id"]: "; ".join(row["what"]) for row in diff(line, "--drift-only")["drift"]}
    assert f"version {PINNED} -> {NEWER}" in rows[f"package:{DRIVER}"] or NEWER in rows[f"package:{DRIVER}"]
    assert "580.159.03, not 580.95.05" in rows[f"package:{DRIVER}"]
    line.apply("--no-verify", *LAYERS)
    found = versions(line)
    assert {found[name] for name in (DRIVER, *PARTS, "nvidia-fabricmanager-580")} == {PINNED}
    assert {DRIVER, *PARTS} <= held(line) and diff(line)["empty"]


def test_packages_that_only_look_like_the_drivers_are_left_alone(line: Line) -> None:
    line.inside("apt-get install -qy nvidia-container-toolkit nvidia-settings")
    assert diff(line)["empty"] and not diff(line, "--drift-only")["drift"]
    line.inside("apt-get purge -qy nvidia-container-toolkit nvidia-settings")


def test_the_initramfs_is_made_anew_when_and_only_when_the_file_changed(line: Line) -> None:
    assert calls(line) == 0
    line.inside(f"chmod 600 {NOUVEAU}")
    line.apply("--no-verify", *LAYERS)
    assert calls(line) == 0
    line.inside(f"echo '# by hand' >> {NOUVEAU}")
    plan = diff(line)
    assert [(row["path"], row["command"]) for row in plan["effects"]] == [
        (NOUVEAU, "update-initramfs -u -k all")
    ]
    line.apply("--no-verify", *LAYERS)
    assert line.inside(f"cat {CALLS}").splitlines() == ["-u -k all"]
    line.apply("--no-verify", *LAYERS)
    assert calls(line) == 1 and diff(line)["empty"]


def test_an_initramfs_that_could_not_be_made_is_owed_until_it_is(line: Line) -> None:
    line.inside(f"touch /etc/initramfs-broken; echo '# by hand' >> {NOUVEAU}")
    ran = line.pdctl("apply", "--yes", "--no-verify", *LAYERS).must(1)
    assert "no space left" in ran.out + ran.err and NOUVEAU in ran.out + ran.err
    plan = diff(line)
    assert not plan["empty"] and not plan["changes"]
    assert [row["owed"] for row in plan["effects"]] == [True]
    (row,) = plan["drift"]
    assert row["what"] == ["update-initramfs -u -k all has not followed; apply does it again"]
    line.inside("rm /etc/initramfs-broken")
    line.apply("--no-verify", *LAYERS)
    assert calls(line) == 1 and diff(line)["empty"]


def test_a_power_cut_between_the_file_and_its_initramfs_leaves_that_to_the_next_apply(line: Line) -> None:
    line.inside(f"touch /etc/initramfs-waits; echo '# by hand' >> {NOUVEAU}")
    with line.start("apply", "--yes", "--no-verify", *LAYERS) as process:
        line.inside("until [ -e /run/initramfs-begun ]; do sleep 0.1; done")
        line.lab.poweroff("h1")
        process.kill()
    line.lab.boot("h1")
    line.inside("rm /etc/initramfs-waits")
    plan = diff(line)
    assert [row["owed"] for row in plan["effects"]] == [True] and not plan["changes"]
    assert [row["what"] for row in plan["drift"]] == [["left unfinished by an interrupted apply"]]
    assert calls(line) == 0
    line.apply("--no-verify", *LAYERS)
    assert calls(line) == 1 and diff(line)["empty"]


def test_another_driver_in_memory_than_on_disk_waits_for_a_reboot(line: Line) -> None:
    version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build"
    made = (
        f"mount -t tmpfs none {PROC} && mkdir {PROC}/nvidia && echo '{version}  (x)' > {PROC}/nvidia/version"
    )
    line.inside(made)
    try:
        plan = line.pdctl("diff", "--json", "--exit-code", *LAYERS).must(2).json
        (row,) = [row for row in plan["foreign"] if row["kind"] == "reboot"]
        assert row["what"] == "loaded module 570.86.15, user space 580.95.05 -> reboot needed"
        assert not plan["empty"] and not plan["changes"]
        shown = line.pdctl("diff", *LAYERS).must().out
        assert "1 to reboot" in shown and "is as its spec says" not in shown
        assert "reboot needed" in line.pdctl("diff", "--drift-only").must().out
    finally:
        line.inside(f"umount {PROC}")
    assert diff(line)["empty"]


def test_a_host_whose_firmware_would_refuse_the_driver_is_left_alone(line: Line) -> None:
    """Only where it is still to be installed: what is there already says nothing new."""
    folder, name = "/sys/firmware", "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    line.inside(f"mount -t tmpfs none {folder} && mkdir -p {folder}/efi/efivars")
    line.inside(rf"printf '\006\000\000\000\001' > {folder}/efi/efivars/{name}")
    try:
        assert diff(line)["empty"]
        line.spec["stack"] = {"base": "article-2025", "driver": NEWER, "fabricmanager": NEWER}
        line.save()
        before = versions(line)
        ran = line.pdctl("apply", "--yes", "--no-verify", *LAYERS).must(1)
        assert "h1: Secure Boot is on" in ran.err and f"{DRIVER} would be installed" in ran.err
        assert versions(line) == before
        assert "FACT024" in line.pdctl("validate", "--hosts", "--format", "json").out
    finally:
        line.inside(f"umount {folder}")
        line.spec["stack"] = SPEC["stack"]
        line.save()


def test_a_next_kernel_without_a_driver_is_told_before_any_reboot(line: Line) -> None:
    running, following = "6.8.0-60-generic", "6.8.0-64-generic"
    folder = f"/lib/modules/{following}"
    dep = "kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko:"
    line.inside(
        f"mkdir -p /boot /lib/modules/{running} /lib/modules/{following};"
        f" touch /boot/vmlinuz-{running} /boot/vmlinuz-{following};"
        f" echo updates/dkms/nvidia.ko: > /lib/modules/{running}/modules.dep;"
        f" echo {dep} > /lib/modules/{following}/modules.dep"
    )
    try:
        told = [row["what"] for row in diff(line)["foreign"] if row["kind"] == "kernel"]
        assert len(told) == 1 and told[0].startswith(f"kernel {following} boots next (the newest in /boot;")
        assert "has no modules nvidia and mlx5_core of OFED, and its headers are missing" in told[0]
        assert f"apt-get install linux-headers-{following}, then dkms autoinstall -k {following}" in told[0]
        found = json.loads(line.pdctl("validate", "--hosts", "--format", "json").out)
        rules = json.dumps(found)
        assert "FACT022" in rules and following in rules
        built = r"updates/dkms/nvidia.ko.zst:\nupdates/dkms/mlx5_core.ko:\n"
        line.inside(f"mkdir {folder}/build; printf '{built}' > {folder}/modules.dep")
        assert not [row for row in diff(line)["foreign"] if row["kind"] == "kernel"]
    finally:
        line.inside(
            f"rm -r /boot/vmlinuz-{running} /boot/vmlinuz-{following} /lib/modules/{running} {folder}"
        )


def test_an_engine_starts_only_once_the_fabric_has_every_gpu(line: Line) -> None:
    """With a web server in the place of the engine, and a driver that says what it is told to."""
    unit_file, unit = web_unit("decoder-0", 7300, fabric_s=1)
    put = request(put=[user(), directory("/etc/pdctl/chat"), unit_file])
    asked = {"h1": {"pdctl_put": put, "pdctl_decoder": request(units=[unit])}}
    active = f"systemctl is-active {unit['name']} || true"
    smi, service = "/usr/bin/nvidia-smi", "/run/systemd/system/nvidia-fabricmanager.service"
    line.inside(f"printf '#!/bin/sh\\ncat /etc/fabric\\n' > {smi}; chmod 755 {smi}")
    line.inside("printf '0, Completed, Success\\n1, In Progress, N/A\\n' > /etc/fabric")
    try:
        told = play(line.lab, "apply", asked).failure("h1")["msg"]
        assert "GPU 1 is In Progress (status N/A); nvidia-fabricmanager is inactive" in told
        line.inside(f"printf '[Service]\\nExecStart=/bin/sleep infinity\\n' > {service}")
        line.inside("systemctl daemon-reload; systemctl start nvidia-fabricmanager")
        told = play(line.lab, "apply", asked).failure("h1")["msg"]
        assert "after 1 s the NVLink fabric has not taken in all GPUs" in told
        assert line.inside(active).strip() == "inactive"
        line.inside("printf '0, Completed, Success\\n1, Completed, Success\\n' > /etc/fabric")
        run = play(line.lab, "apply", asked)
        assert run.status == 0, run.output
        assert line.inside(active).strip() == "active"
    finally:
        line.inside(f"systemctl stop nvidia-fabricmanager; rm -f {smi} {service} /etc/fabric")
        done = play(line.lab, "destroy", {"h1": {"pdctl_delete": request(everything=True)}})
        assert done.status == 0, done.output


def test_an_older_driver_needs_consent_and_takes_its_family_along(line: Line) -> None:
    stack = {"base": "article-2025", "driver": NEWER, "fabricmanager": NEWER}
    line.spec["stack"] = stack
    line.save()
    plan = diff(line)
    assert not plan["reboots"] and not plan["drift"]  # no module is loaded
    line.apply("--no-verify", *LAYERS)
    assert {versions(line)[name] for name in (DRIVER, *PARTS, "nvidia-fabricmanager-580")} == {NEWER}
    assert {DRIVER, *PARTS} <= held(line) and diff(line)["empty"]
    line.spec["stack"] = SPEC["stack"]
    line.save()
    (why,) = [row["why"] for row in diff(line)["changes"] if row["id"] == f"package:{DRIVER}"]
    assert why[0] == f"version {NEWER} -> {PINNED}" and why[-1] == "DOWNGRADE"
    before = versions(line)
    ran = line.pdctl("apply", "--yes", "--no-verify", *LAYERS).must(1)
    assert f"h1: {DRIVER} {NEWER} -> {PINNED}" in ran.err and "nothing was changed" in ran.err
    assert "pdctl apply --allow-downgrades" in ran.err and versions(line) == before
    line.apply("--no-verify", "--allow-downgrades", *LAYERS)
    assert {versions(line)[name] for name in (DRIVER, *PARTS, "nvidia-fabricmanager-580")} == {PINNED}
    assert {DRIVER, *PARTS} <= held(line) and diff(line)["empty"]


def test_a_version_that_no_repository_has_is_told_with_what_there_is(line: Line) -> None:
    line.spec["stack"] = {"base": "article-2025", "driver": "580.999.01-1", "fabricmanager": "580.999.01-1"}
    line.save()
    before = versions(line)
    try:
        ran = line.pdctl("apply", "--yes", "--no-verify", *LAYERS).must(1)
        assert (
            f"{DRIVER} 580.999.01-1 is in no repository of this host; there are: {NEWER}" in ran.err
            and versions(line) == before
        )
        assert {DRIVER, *PARTS} <= held(line)
    finally:
        line.spec["stack"] = SPEC["stack"]
        line.save()


def test_destroy_takes_all_of_it_away_again(hosts: Line, tmp_path: Path) -> None:
    hosts.pdctl("destroy", "--yes").must()
    left = hosts.inside(
        "ls /etc/apt/preferences.d /etc/apt/apt.conf.d /etc/modprobe.d; apt-mark showhold;"
        " dpkg-query -W -f '${Package} ${db:Status-Status}\\n' '*nvidia*' nvlsm 2>/dev/null || true"
    )
    assert "pdctl" not in left and " installed" not in left
    assert hosts.inside(f"tail -n 1 {CALLS}").strip() == "-u -k all"
