"""What keeps apt from installing the pinned versions, told in a plan before anything is tried."""

from __future__ import annotations

import pytest

from pdctl.plan.repositories import Repositories, interrupted, obstacles

DRIVER = "nvidia-driver-580-server-open"


def told(found: Repositories) -> list[str]:
    rows = list(obstacles({"h1": found}))
    assert all((row.host, row.kind) == ("h1", "packages") for row in rows)
    return [row.what for row in rows]


def test_a_host_in_order_says_nothing() -> None:
    assert told(Repositories(age_s=10.0**6)) == [] and interrupted(Repositories()) == ("", "")


@pytest.mark.parametrize(
    ("age_s", "old"), [(60.0, "minutes"), (3 * 3600.0, "3 hours"), (9 * 86400.0, "9 days")]
)
def test_a_version_in_no_repository_is_told_with_what_there_is_and_how_old_that_is(
    age_s: float, old: str
) -> None:
    there = "580.95.05, 580.82.07 (http://mirror jammy/multiverse amd64)"
    assert told(Repositories({DRIVER: ("580.99.99", there)}, age_s)) == [
        f"{DRIVER} 580.99.99 is in no repository of h1; there are: {there} (by lists that are {old} old;"
        " apply fetches them anew)"
    ]
    (none,) = told(Repositories({DRIVER: ("580.99.99", "")}, age_s))
    assert "in no repository of h1, nor is any other version of it (" in none


def test_a_dpkg_that_was_cut_off_is_pdctls_to_finish_or_somebody_elses() -> None:
    ours = Repositories(unfinished={DRIVER: "unpacked"}, cut=True)
    assert told(ours) == [f"dpkg was cut off at {DRIVER} (unpacked): apply finishes it"]
    others = Repositories(unfinished={"libc6": "half-configured"}, others=("libc6",))
    assert told(others) == [
        "dpkg has left packages unfinished at libc6 (half-configured): run `dpkg --configure -a` there: not"
        " all of that is pdctl's, and apply leaves it alone"
    ]
