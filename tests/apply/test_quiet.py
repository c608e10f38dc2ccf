"""What an apply waits for before it plans: modules of a killed one, and nobody who holds the lock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pdctl.apply import quiet
from pdctl.apply.quiet import when_quiet
from pdctl.hosts.holder import this_process
from pdctl.hosts.observation import Kept

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
