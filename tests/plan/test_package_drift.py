"""A driver whose change failed has not been changed by anybody else."""

from __future__ import annotations

from dataclasses import replace

from pdctl.plan.drift import drift
from pdctl.state import Key, Package

NAME = "nvidia-driver-580-server-open"
KEY = Key("h1", f"package:{NAME}")
LEFT = Package(NAME, "580.95.05-1", hold=True, family=("nvidia-*",))
OTHERS = ("nvidia-utils-580-server is 580.95.05, not 580.99.99",)


def test_members_that_another_pin_finds_astray_are_no_drift() -> None:
    now, want = replace(LEFT, deviations=OTHERS), replace(LEFT, version="580.99.99-1")
    assert list(drift({KEY: LEFT}, {KEY: now}, wanted={KEY: want})) == []


def test_nor_are_those_that_a_failed_apply_has_recorded_so() -> None:
    failed = replace(LEFT, deviations=OTHERS)
    now = replace(LEFT, deviations=("nvidia-utils-580-server is 580.95.05, not 580.159.03",))
    want = replace(LEFT, version="580.159.03-1")
    assert list(drift({KEY: failed}, {KEY: now}, wanted={KEY: want})) == []


def test_one_that_was_moved_under_its_pin_is() -> None:
    now = replace(LEFT, deviations=OTHERS)
    (row,) = drift({KEY: LEFT}, {KEY: now}, wanted={KEY: LEFT})
    assert row.what == OTHERS
