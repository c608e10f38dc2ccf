"""What changed outside pdctl is told apart from what the spec changes."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from pdctl.plan.diff import diff
from pdctl.plan.drift import drift
from pdctl.state import File, Key, State, Unit

KEY = Key("h1", "unit:pdctl-chat-decoder-0.service")
LEFT = Unit("pdctl-chat-decoder-0.service", revision="r1", invocation="i1")
OTHER = "environment: NCCL_DEBUG changed"


def test_a_process_that_the_spec_wants_otherwise_has_not_drifted() -> None:
    now = replace(LEFT, deviations=(OTHER, "argv differs"))
    assert list(drift({KEY: LEFT}, {KEY: now}, wanted={KEY: replace(LEFT, revision="r2")})) == []


def test_the_same_process_has_drifted_where_the_spec_wants_what_was_left() -> None:
    now = replace(LEFT, deviations=(OTHER,))
    assert [found.what for found in drift({KEY: LEFT}, {KEY: now}, wanted={KEY: LEFT})] == [(OTHER,)]


def test_a_drop_in_is_drift_whatever_the_spec_wants() -> None:
    now = replace(LEFT, deviations=(OTHER, "drop-in /etc/systemd/system/x.d/y.conf"))
    found = list(drift({KEY: LEFT}, {KEY: now}, wanted={KEY: replace(LEFT, revision="r2")}))
    assert [row.what for row in found] == [("drop-in /etc/systemd/system/x.d/y.conf",)]


FILE = Key("h1", f"file:/etc/systemd/system/{LEFT.name}")
OLD, NEW = (File(FILE.id.removeprefix("file:"), digest) for digest in ("sha256:old", "sha256:new"))
UNREAD = replace(LEFT, deviations=("needs daemon-reload",))
LATER = replace(LEFT, revision="r2")


def told(recorded: State, observed: State, wanted: State, pending: Set[Key] = frozenset()) -> list[str]:
    """What drifted: of the unit in the list, and whether its change is called drift."""
    rows = [word for row in drift(recorded, observed, pending, wanted) if row.key == KEY for word in row.what]
    changes = diff(wanted, observed, recorded, contents={}, pending=pending)
    return rows + ["the change is drift" for change in changes if change.key == KEY and change.drift]


def test_a_unit_file_that_a_failed_apply_has_put_is_no_drift_of_its_unit() -> None:
    """The step that puts files came through, and that which has systemd read them did not."""
    recorded: State = {KEY: LEFT, FILE: NEW}
    observed: State = {KEY: UNREAD, FILE: NEW}
    assert told(recorded, observed, {KEY: LATER, FILE: NEW}) == []
    assert told(recorded, observed, {}) == []
    assert told(recorded, observed, {KEY: LEFT, FILE: OLD}) == []  # and the spec has been taken back


def test_a_unit_file_that_a_killed_apply_has_put_is_no_drift_of_its_unit() -> None:
    """The record says that it was at it, and not yet what it has put."""
    found = told({KEY: LEFT, FILE: OLD}, {KEY: UNREAD, FILE: NEW}, {KEY: LATER, FILE: NEW}, {FILE})
    assert found == []


def test_a_unit_file_that_somebody_else_has_touched_is_drift_of_its_unit() -> None:
    wanted: State = {KEY: LEFT, FILE: OLD}
    both = ["needs daemon-reload", "the change is drift"]
    assert told({KEY: LEFT, FILE: OLD}, {KEY: UNREAD, FILE: NEW}, wanted) == both
    assert told({KEY: LEFT, FILE: OLD}, {KEY: UNREAD, FILE: OLD}, wanted) == both
