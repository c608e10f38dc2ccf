"""What changed outside pdctl is told apart from what the spec changes."""

from __future__ import annotations

from dataclasses import replace

from pdctl.plan.drift import drift
from pdctl.state import Key, Unit

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
