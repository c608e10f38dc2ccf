"""The status document: an instance is healthy when its own unit runs and answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pdctl.plan import make_plan
from pdctl.state import Unit
from pdctl.verify.health import Health
from pdctl.verify.status import status_document
from tests.examples import desired, topology

NAMES = ("prefiller-0", "decoder-0", "proxy")


def status(active: str) -> dict[str, Any]:
    """Everything answers; decoder-0's unit is `active`, or absent when that is empty."""
    state = {
        key: replace(resource, active=active) if resource.id.endswith("decoder-0.service") else resource
        for key, resource in desired("lab").items()
        if isinstance(resource, Unit) and (active or not resource.id.endswith("decoder-0.service"))
    }
    here = topology("lab")
    health = {name: Health(True, "healthy", "1") for name in NAMES}
    return status_document(here, state, make_plan(here, {}, {}, {}), health)


def test_what_runs_and_answers_is_healthy() -> None:
    assert status("active")["healthy"]


@pytest.mark.parametrize("active", ["activating/auto-restart", "failed", ""])
def test_an_answer_on_the_port_of_a_unit_that_does_not_run_is_not_its_own(active: str) -> None:
    document = status(active)
    row = next(row for row in document["instances"] if row["instance"] == "decoder-0")
    assert not document["healthy"] and not row["healthy"]
    assert row["reason"] == f"its unit is {active or 'absent'}"
    assert sum(row["healthy"] for row in document["instances"]) == len(NAMES) - 1
