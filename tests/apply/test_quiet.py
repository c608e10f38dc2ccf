"""What an apply waits for before it plans: modules of a killed one, and nobody who holds the lock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pdctl.apply import quiet
from pdctl.apply.quiet import when_quiet
from pdctl.hosts.holder import this_process
from pdctl.hosts.observation import Kept, OtherWork

DEAD = replace(this_process(), pid=2**22 + 1)  # no process has a number as large


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "PAUSE_S", 0.0)


def looked(*looks: dict[str, Kept]) -> tuple[dict[str, Kept], list[dict[str, Kept]], list[str]]:
    """What came of it, the looks that were not taken any more, and what was said."""
    left: Iterator[dict[str, Kept]] = iter(looks)
    said: list[str] = []
    found = when_quiet(lambda: next(left), lambda seen: seen, said.append)
    return found, list(left), said


def test_a_quiet_host_is_looked_at_once() -> None:
    found, left, said = looked({"h1": Kept()}, {})
    assert found == {"h1": Kept()} and left == [{}] and said == []


@pytest.mark.parametrize("lock", [None, DEAD])
def test_who_is_still_at_work_for_a_killed_apply_is_waited_for(lock: object) -> None:
    busy, done = Kept(lock=lock, busy=True), Kept(lock=lock, mark="new")  # type: ignore[arg-type]
    found, left, said = looked({"h1": done, "h2": busy}, {"h1": done, "h2": busy}, {"h1": done, "h2": done})
    assert found["h2"].mark == "new" and left == []
    assert said == ["h2: what an earlier apply has begun there is not at its end yet; waiting for it"]


def test_who_holds_the_lock_is_not_waited_for_but_told_of_by_the_lock() -> None:
    held = Kept(lock=this_process(), busy=True)
    found, left, said = looked({"h1": held}, {})
    assert found == {"h1": held} and left == [{}] and said == []


def test_the_wait_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "LIMIT_S", 0.0)
    found, left, said = looked({"h1": Kept(busy=True)}, {})
    assert found["h1"].busy and left == [{}] and len(said) == 1


OTHER = Kept(others=(OtherWork("other", "bob@desk", "pdctl apply --yes", 130.0),))


def test_another_cluster_at_work_is_named_and_waited_for_where_it_is_in_the_way() -> None:
    found, left, said = looked(
        {"h1": OTHER, "h2": OTHER}, {"h1": OTHER, "h2": Kept()}, {"h1": Kept(mark="new")}
    )
    assert found["h1"].mark == "new" and left == []
    assert said == [
        "h1, h2: `other` is being changed there by bob@desk (`pdctl apply --yes`, for 2 min); "
        "waiting for it, since a host takes one change at a time"
    ]


def test_another_cluster_is_not_waited_for_where_nothing_is_to_be_done() -> None:
    said: list[str] = []
    seen = {"h1": OTHER, "h2": Kept()}
    assert when_quiet(lambda: seen, lambda seen: seen, said.append, lambda seen: {"h2"}) == seen
    assert said == []


def test_an_own_step_that_has_not_ended_is_waited_for_whoever_else_is_at_work() -> None:
    both = replace(OTHER, busy=True)
    found, _, said = looked({"h1": both}, {"h1": Kept()})
    assert found == {"h1": Kept()} and len(said) == 1 and "an earlier apply" in said[0]
