"""Packages that belong to the driver: found by name and kind of version, told when not at its pin."""

from __future__ import annotations

import pytest
from ansible.module_utils.pdctl_family import astray, deviations, loose, members, upstream

from pdctl.knowledge.drivers import FAMILY, NOT_OF_THE_FAMILY
from pdctl.knowledge.reboots import upstream as controllers_upstream

PIN, NEWER = "580.95.05-0ubuntu0.22.04.2", "580.159.03-0ubuntu0.22.04.1"
ROW = {
    "kind": "package",
    "name": "nvidia-driver-580-server-open",
    "version": PIN,
    "hold": True,
    "family": FAMILY,
    "strangers": NOT_OF_THE_FAMILY,
}
SOUND = {
    "nvidia-driver-580-server-open": (PIN, "hold"),
    "libnvidia-compute-580-server": (PIN, "hold"),
    "nvidia-fabricmanager-580": ("580.95.05-0ubuntu0.22.04.1", "hold"),
    "cuda-drivers-fabricmanager-580": ("580.95.05-0ubuntu0.22.04.1", "hold"),
}
OTHERS = {
    "nvidia-settings": ("510.47.03-0ubuntu1", "install"),
    "nvidia-container-toolkit": ("1.17.8-1", "install"),
    "libnvidia-container1": ("1.17.8-1", "install"),
    "nvidia-gds-13-0": ("13.0.1-1", "install"),
    "nvidia-firmware-580-server-580.82.07": ("580.82.07-0ubuntu0.22.04.1", "install"),
    "linux-modules-nvidia-580-server-open-6.8.0-60-generic": ("6.8.0-60.63", "install"),
    "bash": ("5.2", "install"),
}


def test_only_what_was_built_with_the_driver_belongs_to_it() -> None:
    assert members(ROW, {**SOUND, **OTHERS}).keys() == SOUND.keys() - {ROW["name"]}
    assert deviations(ROW, {**SOUND, **OTHERS}) == []


def test_a_revision_of_debians_is_no_deviation() -> None:
    assert astray(ROW, {"libnvidia-cfg1-580": ("580.95.05-1", "hold")}) == {}


def test_each_other_version_is_told_once_with_its_packages() -> None:
    names = [f"libnvidia-part{n}-580" for n in range(5)]
    found = deviations(ROW, {**SOUND, **dict.fromkeys(names, (NEWER, "hold"))})
    assert found == ["libnvidia-part0-580, libnvidia-part1-580 and 3 more are 580.159.03, not 580.95.05"]
    (one,) = deviations(ROW, {**SOUND, "nvidia-utils-580-server": ("580.82.07-1", "hold")})
    assert one == "nvidia-utils-580-server is 580.82.07, not 580.95.05"


def test_what_is_not_held_is_told() -> None:
    free = {**SOUND, "libnvidia-compute-580-server": (PIN, "install")}
    assert deviations(ROW, free) == ["libnvidia-compute-580-server is not held"]
    assert loose(dict(ROW, hold=False), free) == []


def test_without_a_version_any_will_do() -> None:
    assert deviations(dict(ROW, version=None, hold=False), {"libnvidia-x": ("1.0", "install")}) == []


@pytest.mark.parametrize("version", [PIN, f"1:{PIN}", "580.95.05", "580.95.05+dfsg-1", "2025.10.14-1", ""])
def test_both_sides_take_the_same_part_of_a_version(version: str) -> None:
    assert upstream(version) == controllers_upstream(version)
