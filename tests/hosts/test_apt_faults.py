"""All that can go wrong with apt on one host: told with its cause, nothing moved, the other host finished."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.hosts.faulty import (
    ALL,
    BEFORE,
    FAULTS,
    FOLDER,
    MENDED,
    OFED,
    WANTED,
    Fault,
    faulty_hosts,
    sources,
)
from tests.hosts.line import Line
from tests.hosts.modules import CALLS, REFUSED, driver_in_memory
from tests.hosts.stacked import LAYERS, diff, held, versions
from tests.hosts.vendors import DRIVER, NEWER, NVIDIAS, PARTS, PINNED

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="makes packages with dpkg-deb"),
    pytest.mark.skipif(shutil.which("gpg") is None, reason="signs repositories with gpg"),
]
APPLY = ("apply", "--yes", "--no-verify", *LAYERS)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with faulty_hosts(tmp_path_factory) as line:
        yield line


@pytest.fixture
def line(hosts: Line) -> Line:
    """h1 waits for the newer driver; h2 may have it already."""
    assert versions(hosts)[DRIVER] == PINNED
    return hosts


def want(line: Line, stack: dict[str, str], apt: dict[str, int]) -> None:
    line.spec |= {"stack": stack, "apt": apt}
    line.save()


def test_builds_of_another_vendor_do_not_come_in_by_an_upgrade(line: Line) -> None:
    """apt takes their revision for newer; the pin before that of the version keeps them away."""
    line.inside(sources(ALL, f"deb [trusted=yes] file:{FOLDER}/nvidia ./") + "; apt-get update -q")
    line.inside(f"apt-mark unhold {DRIVER} {' '.join(PARTS)} nvidia-fabricmanager-580")
    try:
        policy = line.inside("apt-cache policy libnvidia-compute-580-server nvidia-fabricmanager-580")
        assert NVIDIAS in policy and policy.count(f"Candidate: {PINNED}\n") == 2
        assert "Inst " not in line.inside("apt-get -s dist-upgrade")
    finally:
        line.inside(
            f"{MENDED}; apt-get update -q; apt-mark hold {DRIVER} {' '.join(PARTS)} nvidia-fabricmanager-580"
        )


def test_packages_of_two_vendors_are_not_put_together(line: Line) -> None:
    line.inside(sources(ALL, f"deb [trusted=yes] file:{FOLDER}/nvidia ./"))
    want(line, {**WANTED, "fabricmanager": "580.159.03-1"}, {})
    before = versions(line)
    try:
        told = line.pdctl(*APPLY, "--host", "h1").must(1).err
        assert f"what belongs to {DRIVER} would come from more than one vendor: " in told, told
        assert "cuda-drivers-fabricmanager-580 580.159.03-1 (NVIDIA)" in told
        assert f"{DRIVER} {NEWER} (Ubuntu)" in told and "nothing was installed" in told
        assert versions(line) == before
    finally:
        line.inside(f"{MENDED}; apt-get update -q")


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_it_is_told_and_the_other_host_finishes(line: Line, fault: Fault) -> None:
    before = versions(line)
    want(line, fault.stack, fault.apt)
    line.inside("apt-mark unhold nvlsm", "h2")
    line.inside(fault.cause)
    try:
        ran = line.pdctl(*APPLY).must(1)
        after = versions(line)
    finally:
        line.inside(f"{fault.mend}; {MENDED}" if fault.mend else MENDED)
    told = ran.out + ran.err
    assert [words for words in fault.says if words not in " ".join(told.split())] == [], told
    assert {**after, "ofed-scripts": ""} == {**before, "ofed-scripts": ""}
    assert DRIVER in held(line) and "nvlsm" in line.inside("apt-mark showhold", "h2")


def test_what_is_in_no_repository_is_told_before_an_apply(line: Line) -> None:
    want(line, {**BEFORE, "driver": "580.99.99-1", "fabricmanager": "580.99.99-1"}, {})
    (row,) = [row for row in diff(line)["foreign"] if row["host"] == "h1" and row["subject"] == DRIVER]
    assert row["what"].startswith(
        f"{DRIVER} 580.99.99-1 is in no repository of h1; there are: {NEWER}, {PINNED} (file:{FOLDER}/all ./)"
    )
    found = line.pdctl("doctor", "--json", "--host", "h1").json
    (check,) = [row for row in found["hosts"][0]["checks"] if row["check"] == "packages"]
    assert check["status"] == "warning" and check["findings"][0]["rule"] == "FACT034"


def test_the_next_apply_goes_on_also_where_dpkg_was_cut_off_at_ours(line: Line) -> None:
    want(line, {**WANTED, "doca_ofed": OFED}, {})
    line.inside(f"dpkg --unpack {FOLDER}/all/{PARTS[0]}_{NEWER}_all.deb")
    (row,) = [row for row in diff(line)["foreign"] if row["subject"] == "dpkg"]
    assert row["what"].endswith(f"at {PARTS[0]} (unpacked): apply finishes it")
    ran = line.pdctl(*APPLY, "--json").must()
    assert "run dpkg --configure -a" in str(ran.json["did"]["h1"])
    found = versions(line)
    assert {found[name] for name in (DRIVER, *PARTS, "nvidia-fabricmanager-580")} == {NEWER}
    assert {DRIVER, *PARTS} <= held(line) and diff(line)["empty"]


def test_the_drivers_modules_follow_ofed_and_a_mismatch_stops_before_engines(line_with_ofed: Line) -> None:
    line = line_with_ofed
    upstream = NEWER.split("-")[0]
    line.inside(driver_in_memory(upstream) + "\ntouch /etc/peermem-refused")
    try:
        want(line, {**WANTED, "doca_ofed": BEFORE["doca_ofed"]}, {})
        told = " ".join(line.pdctl(*APPLY, "--allow-downgrades").must(1).err.split())
        assert "h1: nvidia-peermem does not load (modprobe: ERROR: could not insert" in told, told
        assert f"the kernel log has `{REFUSED}`" in told and "rebuild driver modules" in told
        kernel = line.inside("uname -r").strip()
        words = f"-m nvidia -v {upstream} -k {kernel} --force"
        assert line.inside(f"head -n 3 {CALLS}").splitlines() == [
            f"dkms build {words}",
            f"dkms install {words}",
            "modprobe nvidia-peermem",
        ]
        (row,) = [row for row in diff(line)["drift"] if row["id"] == "package:doca-ofed"]
        assert row["what"] == ["the driver's modules have not been built against it; apply does it again"]
        (check,) = [
            row
            for row in line.pdctl("doctor", "--json", "--host", "h1").json["hosts"][0]["checks"]
            if row["check"] == "OFED"
        ]
        assert check["found"].startswith("OFED-internal-25.07-0.9.7, pinned 3.0.0-058218")
        assert [found["rule"] for found in check["findings"]] == ["FACT036"]
        line.inside(f"rm /etc/peermem-refused {CALLS}")
        ran = line.pdctl(*APPLY, "--json").must()
        assert "load nvidia-peermem" in ran.json["did"]["h1"] and diff(line)["empty"]
        assert line.inside(f"grep -c dkms {CALLS}").strip() == "2"
    finally:
        line.inside("umount /sys/module")


@pytest.fixture
def line_with_ofed(hosts: Line) -> Line:
    """Both hosts have the newer driver and the newer OFED."""
    want(hosts, {**WANTED, "doca_ofed": OFED}, {})
    hosts.apply("--no-verify", *LAYERS)
    return hosts
