"""What targets mean for the proof at the end: nothing can be proven while others of the spec do not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pdctl.apply.look import Look
from pdctl.cli.planning import resting, targets_of
from pdctl.hosts.observation import Observation
from pdctl.state import Unit
from tests.plan.changes import edit
from tests.plan.test_targets import chosen

DONE = edit(("max_num_seqs: 64", "max_num_seqs: 128"))


@pytest.mark.parametrize(("stopped", "missing"), [("decoder-0", ["decoder-0"]), ("decoder-1", []), ("", [])])
def test_instances_outside_the_targets_that_do_not_run_are_named(stopped: str, missing: list[str]) -> None:
    observed = {
        key: replace(row, active="inactive") if isinstance(row, Unit) and row.instance == stopped else row
        for key, row in DONE.observed.items()
    }
    selection, plan = chosen(DONE, instances="decoder-1")
    seen = Observation(observed, observed, {}, {}, {}, {}, {}, {})
    look = Look(DONE.topology, Path(), DONE.desired, seen, plan, selection)
    assert resting(look) == missing
    assert resting(replace(look, selection=None)) == []


def test_a_host_that_was_never_applied_to_has_nothing_that_runs() -> None:
    selection, plan = chosen(DONE, instances="decoder-1")
    seen = Observation({k: r for k, r in DONE.observed.items() if k.host == "h1"}, {}, {}, {}, {}, {}, {}, {})
    look = Look(DONE.topology, Path(), DONE.desired, seen, plan, selection)
    assert resting(look) == ["decoder-0", "prefiller-1"]


def test_targets_are_told_once_each_in_the_order_given() -> None:
    targets = targets_of(["h1", "h1"], [], ["decoder-1", "decoder-0"], [])
    assert str(targets) == "--host h1 --instance decoder-1 --instance decoder-0"
    assert not targets_of([], [], [], [])
