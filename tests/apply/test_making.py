"""How a generation ends on each host: complete only where nothing failed and everything was seen healthy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pdctl.apply.lock import Held
from pdctl.apply.look import Look
from pdctl.apply.making import came_out
from pdctl.errors import UnreachableError
from pdctl.hosts.observation import Observation
from pdctl.plan import make_plan
from pdctl.state import Key, Unit
from tests.cli.test_kept_plans import FACTS
from tests.examples import desired, topology

NAME = "lab-simulator"


def look(unproven: dict[Key, str]) -> Look:
    """All is as wanted, but for units that were not seen healthy."""
    want = desired(NAME)
    facts = dict.fromkeys({key.host for key in want}, FACTS)
    plan = make_plan(topology(NAME), want, want, want, pending=frozenset(unproven), unproven=unproven)
    return Look(topology(NAME), Path(), want, Observation(want, want, {}, {}, facts, {}, {}, {}), plan)


def ended(after: Look, *failed: str) -> dict[str, str]:
    held = Held("t", 2)
    came_out(held, look({}), after, failed)
    return held.states


def test_hosts_on_which_nothing_is_left_to_do_are_complete() -> None:
    assert ended(look({})) == {"h1": "complete", "h2": "complete"}


def test_a_host_that_failed_is_not_complete_although_nothing_differs_on_it() -> None:
    assert ended(look({}), "h1") == {"h2": "complete"}


def test_a_host_with_an_engine_that_was_not_seen_healthy_is_not_complete() -> None:
    unit = next(k for k, r in desired(NAME).items() if isinstance(r, Unit) and k.host == "h2")
    assert ended(look({unit: "did not become healthy in 10 s"})) == {"h1": "complete"}


@pytest.mark.parametrize("when", ["before", "after"])
def test_with_a_host_left_out_none_is_complete_since_no_way_leads_back_to_a_part(when: str) -> None:
    whole = look({})
    gone = {"h2": UnreachableError("no answer", where="h2")}
    seen = replace(whole.seen, failures=gone, facts={"h1": FACTS})
    part = replace(whole, seen=seen)
    held = Held("t", 2)
    came_out(held, part if when == "before" else whole, part)
    assert held.states == {"h1": "partial"} and held.oldest == 0


def test_garbage_is_kept_while_anything_is_left() -> None:
    held = Held("t", 2)
    came_out(held, look({}), look({}), ["h1"])
    assert held.oldest == 0
