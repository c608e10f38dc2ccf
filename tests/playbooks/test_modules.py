"""The driver's modules after OFED changed: built anew, peermem loaded, or the kernel's own words on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_modules, pdctl_observe_peermem
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_modules import KEY, STATUS, Modules, check_peermem, load_peermem, rebuild
from ansible.module_utils.pdctl_observe_peermem import peermem_facts, peermem_refused

DRIVER = "nvidia-driver-580-server-open"
PIN = "580.95.05-0ubuntu0.22.04.2"
REFUSED = "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client"
LOG = f"[   12.1] mlx5_core: probe\n[   99.5] {REFUSED}\n[   99.5] nvidia_peermem: Unknown symbol (err -22)\n"


def row(name: str, version: str, **more: Any) -> dict[str, Any]:
    return {"kind": "package", "name": name, "version": version, "hold": True, "deviations": [], **more}


OFED_ROW, DRIVER_ROW = row("doca-ofed", "3.1.0-1"), row(DRIVER, PIN, family=["nvidia-*"], strangers=[])


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in PATH with the host's tools, which write what they are called with into `calls`."""
    (tmp_path / "proc").mkdir()
    programs = {
        "dkms": f"[ $1 = status ] && {{ cat {tmp_path}/status; exit; }}\n"
        f"[ ! -e {tmp_path}/broken ] || {{ echo 'Error! Bad return status for module build'; exit 10; }}\n",
        "modprobe": f"[ ! -e {tmp_path}/refuses ] || "
        "{ echo \"modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\" >&2; exit 1; }\n"
        f"echo 'nvidia_peermem 16384 0' >> {tmp_path}/proc/modules\n",
        "dmesg": f"cat {tmp_path}/log\nexit\n",
        "modinfo": "echo ABC\nexit\n",
        "ofed_info": "echo OFED-internal-25.04-0.6.1:\nexit\n",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}echo {name} $* >> {tmp_path}/calls\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "status").write_text(
        "mlnx-ofed-kernel/25.04, 6.8.0-60-generic, x86_64: installed\n"
        "nvidia-srv/580.95.05, 6.8.0-60-generic, x86_64: installed\n"
    )
    (tmp_path / "proc/modules").write_text("nvidia 9000 1\nib_core 9 0\n")
    (tmp_path / "log").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for module in (pdctl_observe_peermem, pdctl_modules):
        monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(pdctl_modules, "LOADED_CORE", str(tmp_path / "srcversion"))
    monkeypatch.setattr(pdctl_modules, "_kernels", lambda: ["6.8.0-60-generic", "6.8.0-64-generic"])
    return tmp_path


def calls(host: Path) -> list[str]:
    return (host / "calls").read_text().splitlines() if (host / "calls").exists() else []


@pytest.mark.parametrize(
    ("ofed", "driver", "pending", "due"),
    [
        ("3.0.0-1", PIN, [], True),  # OFED alone
        ("3.1.0-1", PIN, [], False),
        ("3.1.0-1", PIN, [KEY], True),  # a run before was cut off
        ("3.0.0-1", "570.86.15-1", [], False),  # the driver comes after it, and builds for itself
        ("3.0.0-1", None, [], False),
    ],
)
def test_they_are_built_anew_when_only_ofed_changes(
    ofed: str, driver: str | None, pending: list[str], due: bool
) -> None:
    seen = {KEY: row("doca-ofed", ofed)} | ({f"package:{DRIVER}": row(DRIVER, driver)} if driver else {})
    modules = Modules([OFED_ROW, DRIVER_ROW], seen, {}, pending)
    assert modules.due is due and bool(modules.owed()) is due and bool(modules.foretell()) is due
    assert not Modules([OFED_ROW], seen, {}, pending).due


def test_a_driver_that_stays_is_in_the_record_alone() -> None:
    recorded = {f"package:{DRIVER}": row(DRIVER, PIN), "file:/x": {"kind": "file", "path": "/x"}}
    modules = Modules([OFED_ROW], {KEY: row("doca-ofed", "3.0.0-1")}, recorded, [])
    assert modules.due and modules.version == "580.95.05"
    assert not Modules([], {}, recorded, [KEY]).due  # a request that is not about it leaves it owed


def test_every_kernel_that_may_run_gets_them_and_then_peermem_is_loaded(host: Path) -> None:
    seen = {KEY: row("doca-ofed", "3.0.0-1"), f"package:{DRIVER}": DRIVER_ROW}
    modules = Modules([OFED_ROW, DRIVER_ROW], seen, {}, [])
    did = modules.bring_about()
    words = "-m nvidia-srv -v 580.95.05 -k 6.8.0-6"
    assert did == [
        f"run dkms build {words}0-generic: OFED changed",
        f"run dkms build {words}4-generic: OFED changed",
        "load nvidia-peermem",
    ]
    assert calls(host)[:2] == [
        f"dkms build {words}0-generic --force",
        f"dkms install {words}0-generic --force",
    ]
    assert not modules.due and modules.owed() == {}


def test_a_build_that_fails_is_owed_and_starts_nothing(host: Path) -> None:
    (host / "broken").touch()
    seen = {KEY: row("doca-ofed", "3.0.0-1"), f"package:{DRIVER}": DRIVER_ROW}
    modules = Modules([OFED_ROW, DRIVER_ROW], seen, {}, [])
    with pytest.raises(Problem, match=r"for kernel 6\.8\.0-60-generic: Error! Bad return status .*No engine"):
        modules.bring_about()
    assert modules.owed() == {KEY: "the driver's modules have not been built against it"}


def test_a_peermem_of_another_rdma_stack_is_told_in_the_kernels_words(host: Path) -> None:
    (host / "refuses").touch()
    (host / "log").write_text(LOG)
    with pytest.raises(Problem) as error:
        load_peermem("580.95.05")
    said = str(error.value)
    assert "could not insert 'nvidia_peermem': Invalid argument" in said and f"`{REFUSED}`" in said
    assert (
        "rebuild driver modules (dkms build -m nvidia -v 580.95.05" in said
        and "No engine was started" in said
    )
    assert os.uname().release in said


def test_a_module_that_says_it_is_loaded_and_is_not_is_told_too(host: Path) -> None:
    (host / "modprobe").write_text("#!/bin/sh\n")
    with pytest.raises(Problem, match=r"it is not in lsmod afterwards\); the kernel log has nothing of it"):
        load_peermem("580.95.05")


def test_nothing_is_loaded_before_a_reboot_that_has_to_come_first(host: Path) -> None:
    (host / "srcversion").write_text("DEF\n")
    assert load_peermem("1") == [
        "leave nvidia-peermem until a reboot: the RDMA modules in memory are not those on disk"
    ]
    (host / "proc/modules").write_text("ib_core 9 0\n")
    assert load_peermem("1") == [] and calls(host) == []
    assert not [name for name in calls(host) if name.startswith("modprobe")]


def test_engines_do_not_start_on_a_mismatch_where_pdctl_keeps_both(host: Path) -> None:
    (host / "refuses").touch()
    (host / "log").write_text(LOG)
    both = {KEY: OFED_ROW, f"package:{DRIVER}": DRIVER_ROW, "file:/x": {"path": "/x"}}
    with pytest.raises(Problem, match="disagrees about version of symbol"):
        check_peermem(both)
    check_peermem({KEY: OFED_ROW})
    (host / "log").write_text("")
    check_peermem(both)


def test_the_probe_says_which_ofed_there_is_and_what_the_kernel_refused(host: Path) -> None:
    assert peermem_facts([DRIVER_ROW]) == {}
    assert peermem_facts([OFED_ROW]) == {"ofed": "OFED-internal-25.04-0.6.1", "refused": ""}
    (host / "log").write_text(LOG)
    assert peermem_refused() == REFUSED
    (host / "proc/modules").write_text("nvidia_peermem 1 0\n")
    assert peermem_refused() == ""


def test_the_lists_of_old_and_new_dkms_are_read() -> None:
    assert STATUS.findall("nvidia, 580.95.05, 5.15.0-160-generic, x86_64: installed\n") == [
        ("nvidia", "580.95.05")
    ]
    assert STATUS.findall("nvidia-srv/580.95.05: added\n") == [("nvidia-srv", "580.95.05")]


def test_a_dkms_that_builds_over_nothing_is_made_to(host: Path) -> None:
    text = f"#!/bin/sh\n[ $1 != status ] || {{ cat {host}/status; exit; }}\necho $* >> {host}/calls\n"
    over = "echo 'This module has already been built'; exit 3"
    once = f"[ $1 != build ] || [ -e {host}/removed ] || {{ {over}; }}\n"
    (host / "dkms").write_text(f"{text}{once}[ $1 != remove ] || touch {host}/removed\n")
    assert len(rebuild("580.95.05")) == 2
    assert [line.split()[0] for line in calls(host)][:4] == ["build", "remove", "build", "install"]
