"""What pdctl does not own, in words; drivers that wait for a reboot; packages that will need one."""

from __future__ import annotations

import pytest

from pdctl.knowledge.reboots import upstream
from pdctl.plan import Action, Change
from pdctl.plan.foreign import Foreign, foreign
from pdctl.plan.machine import Machine
from pdctl.plan.reboots import Boots, reboots
from pdctl.state import Key, Package, Unit

DRIVER = "nvidia-driver-580-server-open"
OLD, NEW = "580.82.07-0ubuntu0.22.04.1", "580.95.05-0ubuntu0.22.04.2"


def test_a_process_on_a_gpu_and_one_on_a_port_are_told_in_words() -> None:
    gpu = Foreign("gpu", "3", "decoder-0", pid=812, process="python3", user="bob", memory_mib=4096)
    port = Foreign("port", "7200", "decoder-0", pid=9, process="nginx", user="root", unit="nginx.service")
    found = foreign({"h2": [gpu], "h1": [port]}, {}, {})
    assert [(row.host, row.what) for row in found] == [
        ("h1", "port 7200 (decoder-0) is held by nginx, pid 9 of root, nginx.service"),
        ("h2", "GPU 3 (decoder-0) is used by python3, pid 812 of bob, 4096 MiB"),
    ]


@pytest.mark.parametrize(
    ("loaded", "said"),
    [
        ("580.82.07", ["loaded module 580.82.07, user space 580.95.05 -> reboot needed"]),
        ("580.95.05", []),
        ("", []),
    ],
)
def test_a_driver_that_is_not_the_installed_one_is_told(loaded: str, said: list[str]) -> None:
    observed = {
        Key("h1", f"package:{DRIVER}"): Package(DRIVER, NEW),
        Key("h1", "package:x"): Package("x", "1"),
    }
    assert [row.what for row in foreign({}, {"h1": Machine(driver=loaded)}, observed)] == said


def test_an_nvidia_smi_that_fails_is_told_once() -> None:
    note = "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch"
    found = foreign({}, {}, {}, {"h1": (note, note, "/etc/x: Permission denied")})
    assert [(row.host, row.kind, row.what) for row in found] == [("h1", "driver", note)]


@pytest.mark.parametrize(("crashes", "told"), [(1, 0), (3, 1)])
def test_a_unit_that_keeps_ending_is_told(crashes: int, told: int) -> None:
    unit = Unit("pdctl-chat-decoder-0.service", crashes=crashes)
    found = foreign({}, {}, {Key("h1", unit.id): unit})
    assert [row.what for row in found] == [
        f"systemd has started {unit.name} again 3 times: it keeps ending"
    ] * told


@pytest.mark.parametrize(
    ("name", "before", "after", "needed"),
    [
        (DRIVER, OLD, NEW, f"{OLD} -> {NEW}"),
        (DRIVER, None, NEW, ""),
        (DRIVER, NEW, NEW, ""),
        ("doca-ofed", "2.9", "3.0.0-058218", "2.9 -> 3.0.0-058218"),
        ("linux-image-6.8.0-60-generic", None, "6.8.0-60.63", ""),  # which one runs, the host tells
        ("libnuma1", "1", "2", ""),
    ],
)
def test_packages_whose_old_version_stays_loaded_need_a_reboot(
    name: str, before: str | None, after: str, needed: str
) -> None:
    have = Package(name, before) if before else None
    action = Action.UPDATE if before else Action.CREATE
    change = Change(Key("h1", f"package:{name}"), action, Package(name, after), have, ())
    found = reboots((change,), {}, {}, Boots())
    assert [row.change for row in found.needs] == ([needed] if needed else [])


@pytest.mark.parametrize("version", [NEW, f"1:{NEW}", "580.95.05", "580.95.05+dfsg-1"])
def test_the_upstream_part_of_a_version_is_what_driver_and_fabric_manager_share(version: str) -> None:
    assert upstream(version) == "580.95.05"
