"""What would become older: by Debian's order of versions, told, and apart from what was moved by others."""

from __future__ import annotations

import itertools
import shutil
import subprocess

import pytest

from pdctl.knowledge.debian_versions import is_older
from pdctl.plan import Action, Change, Plan
from pdctl.plan.diff import diff
from pdctl.plan.downgrades import downgrades
from pdctl.state import Key, Package

# From the oldest to the newest.
ORDERED = (
    "1.0~rc1-1",
    "1.0-1",
    "1.0-1ubuntu1",
    "1.0-2",
    "1.0a-1",
    "1.0+dfsg-1",
    "1.0.1-1",
    "1.9-1",
    "1.10-1",
    "580.95.05-0ubuntu0.22.04.2",
    "580.105.08-0ubuntu0.22.04.1",
    "1:0.1-1",
)
OLD, NEW = "570.195.03-0ubuntu1", "580.95.05-0ubuntu0.22.04.2"
NAME = "nvidia-driver-580-server-open"


@pytest.mark.parametrize(("older", "newer"), list(itertools.combinations(ORDERED, 2)))
def test_versions_are_ordered_as_debian_orders_them(older: str, newer: str) -> None:
    assert is_older(older, newer) and not is_older(newer, older) and not is_older(older, older)


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="asks dpkg")
def test_dpkg_agrees() -> None:
    for older, newer in itertools.pairwise(ORDERED):
        assert subprocess.run(["dpkg", "--compare-versions", older, "lt", newer], check=False).returncode == 0


def plan(want: Package, have: Package | None, *, drift: bool = False) -> Plan:
    action = Action.UPDATE if have else Action.CREATE
    return Plan("chat", (Change(Key("h1", want.id), action, want, have, (), drift),), (), (), (), {})


@pytest.mark.parametrize(
    ("want", "have", "drift", "count"),
    [
        (OLD, NEW, False, 1),
        (NEW, OLD, False, 0),
        (NEW, None, False, 0),
        (None, NEW, False, 0),
        (OLD, NEW, True, 0),
    ],
)
def test_only_what_the_spec_makes_older_needs_consent(
    want: str | None, have: str | None, drift: bool, count: int
) -> None:
    before = Package(NAME, have) if have else None
    assert len(list(downgrades(plan(Package(NAME, want), before, drift=drift)))) == count


def test_the_plan_labels_it() -> None:
    key = Key("h1", f"package:{NAME}")
    (change,) = diff({key: Package(NAME, OLD)}, {key: Package(NAME, NEW)}, {}, contents={})
    assert change.why == (f"version {NEW} -> {OLD}", "DOWNGRADE")
