"""What a host gives engines on GPUs: read from text and bytes as the kernel writes them, broken ones too."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest
from ansible.module_utils.pdctl_observe_pci import gpu_place
from ansible.module_utils.pdctl_observe_ready import (
    CLOCK_ERROR_US,
    clock,
    clock_kept,
    huge_pages,
    pci_gpus,
    ready_facts,
    redirect,
    service_limits,
)

from tests.sysfs import device, two_switches

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max open files            1024                 524288               files     
Max locked memory         8388608              8388608              bytes     
Max realtime timeout      unlimited            unlimited            us        
"""  # noqa: W291  as in /proc/PID/limits
EVERY = "         0          0 4294967295\n"


def config(*capabilities: tuple[int, bytes]) -> bytes:
    """A device's configuration space with these extended capabilities, one after the other."""
    space = bytearray(4096)
    at = 0x100
    for number, (kind, body) in enumerate(capabilities):
        following = at + 0x40 if number + 1 < len(capabilities) else 0
        struct.pack_into("<I", space, at, kind | 1 << 16 | following << 20)
        space[at + 4 : at + 4 + len(body)] = body
        at += 0x40
    return bytes(space)


def acs(control: int) -> tuple[int, bytes]:
    return 0x000D, struct.pack("<HH", 0x5F, control)


ERRORS = (0x0001, b"\0" * 8)  # advanced error reporting, which comes first on most bridges


@pytest.mark.parametrize(
    ("space", "redirects"),
    [
        (config(ERRORS, acs(0x1D)), True),  # SrcValid+ ReqRedir+ CmpltRedir+ UpstreamFwd+
        (config(ERRORS, acs(0x11)), False),  # SrcValid+ UpstreamFwd+
        (config(acs(0x20)), True),  # EgressCtrl+
        (config(ERRORS), False),
        (config(ERRORS, acs(0x1D))[:64], False),  # what others than root see
        (b"\xff" * 4096, False),  # a device that fell off the bus
        (struct.pack("<I", 0x0001 | 0x100 << 20) * 1024, False),  # a list that leads back to its beginning
        (b"", False),
    ],
)
def test_a_bridge_redirects_as_its_control_word_says(space: bytes, redirects: bool) -> None:
    assert redirect(space) is redirects


def test_bridges_above_gpus_are_looked_at_and_no_others(tmp_path: Path) -> None:
    sys = tmp_path / "sys"
    buses = two_switches(sys)
    for path in sys.rglob("0000:*"):
        if path.is_dir() and not path.is_symlink():
            (path / "config").write_bytes(config(ERRORS, acs(0x1D)))
    place = gpu_place(buses[0], str(sys))["path"]
    found = ready_facts([place, ""], str(tmp_path))
    assert found["redirects"] == ["0000:16:01.0", "0000:17:00.0", "0000:18:00.0"]


def test_the_kinds_of_iommu_domains_are_those_of_the_devices(tmp_path: Path) -> None:
    sys = tmp_path / "sys"
    places = [gpu_place(bus, str(sys))["path"] for bus in two_switches(sys)]
    assert ready_facts(places, str(tmp_path))["iommu"] == []
    for number, place in enumerate(places):
        group = sys / place.lstrip("/") / "iommu_group"
        group.mkdir()
        (group / "type").write_text("identity\n" if number else "DMA-FQ\n")
    assert ready_facts(places, str(tmp_path))["iommu"] == ["DMA-FQ", "identity"]
    assert ready_facts(places[1:], str(tmp_path))["iommu"] == ["identity"]


def test_gpus_are_counted_on_the_bus_without_their_audio_and_switches(tmp_path: Path) -> None:
    sys = tmp_path / "sys"
    rows = [("0x10de", "0x030200"), ("0x10de", "0x030000"), ("0x10de", "0x040300"), ("0x10de", "0x068000")]
    for number, (vendor, kind) in enumerate([*rows, ("0x1a03", "0x030000")]):
        folder = device(sys, f"pci0000:00/0000:00:0{number}.0", 0)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    assert pci_gpus(str(tmp_path)) == 2 and pci_gpus(str(tmp_path / "elsewhere")) == 0


def test_huge_pages_are_read() -> None:
    text = "MemTotal:  65 kB\nHugePages_Total:      16\nHugePages_Free:        4\nHugepagesize:    2048 kB\n"
    assert huge_pages(text) == {"total": 16, "free": 4, "size_kib": 2048}
    assert huge_pages("") == {"total": 0, "free": 0, "size_kib": 0}


@pytest.mark.parametrize(
    ("able", "users", "memlock", "nofile"),
    [
        ("000001ffffffffff", EVERY, "unlimited", "1048576"),
        ("00000000a80425fb", EVERY, "8388608", "524288"),  # a container's usual set
        ("000001ffffffffff", "0 100000 65536\n", "8388608", "524288"),  # root of a user namespace
        ("", EVERY, "8388608", "524288"),
    ],
)
def test_a_service_gets_what_process_1_may_raise(
    tmp_path: Path, able: str, users: str, memlock: str, nofile: str
) -> None:
    one = tmp_path / "proc/1"
    one.mkdir(parents=True)
    (tmp_path / "proc/sys/fs").mkdir(parents=True)
    (tmp_path / "proc/sys/fs/nr_open").write_text("1048576\n")
    (one / "limits").write_text(LIMITS)
    (one / "status").write_text(f"Name:\tsystemd\nCapEff:\t{able}\n")
    (one / "uid_map").write_text(users)
    assert service_limits(str(tmp_path)) == {"memlock": memlock, "nofile": nofile}


def test_a_host_that_tells_nothing_is_read_as_that(tmp_path: Path) -> None:
    found = ready_facts(["/devices/pci0000:00/0000:00:01.0"], str(tmp_path))
    assert (found["iommu"], found["redirects"], found["memlock"], found["nofile"]) == ([], [], "", "")
    assert found["open_module"] is False


def test_the_kernels_clock_is_read_as_it_lays_it_out() -> None:
    found = clock()
    assert abs(found.seconds - time.time()) < 5 and found.tick in range(
        9000, 11001
    )  # adjtimex(2): 10,000 or so
    assert found.maxerror >= 0


def test_the_clock_of_a_container_is_not_its_own(tmp_path: Path) -> None:
    kept = clock_kept(str(tmp_path))
    assert kept is (clock().maxerror < CLOCK_ERROR_US)
    (tmp_path / "run/systemd").mkdir(parents=True)
    (tmp_path / "run/systemd/container").write_text("systemd-nspawn")
    assert clock_kept(str(tmp_path)) is None
