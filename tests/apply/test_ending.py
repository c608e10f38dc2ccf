"""What is said when a rollout stops: where, who still serves, who gets no requests, and what comes next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pdctl.apply.ending import raise_for
from pdctl.apply.look import Look
from pdctl.apply.making import About
from pdctl.apply.run import Done
from pdctl.errors import ErrorGroup, UnhealthyError
from pdctl.hosts.observation import Generation, Kept, Observation
from pdctl.state import State
from tests.plan.test_rollout import World, planned, seen, wanted

CANARY = World({"prefiller-0": "fine", "decoder-0": "restarts", "decoder-1": "restarts"})
STOPPED = replace(CANARY, engines=CANARY.engines | {"decoder-0": "crashed"}, drained=("decoder-0",))
ERROR = UnhealthyError("decoder-0: it ended again and again", where="gpu02")
STEP = "Restart decoder-0 and wait until it is healthy"


def look(world: World) -> Look:
    plan, _, topology = planned(world)
    _, desired = wanted(world.counts, world.stale, world.canary, world.max_unavailable)
    state: State = seen(world, topology, desired)[0]
    return Look(topology, Path("/spec"), desired, Observation(state, {}, {}, {}, {}, {}, {}, {}), plan)


def error(done: Done, after: World = STOPPED) -> ErrorGroup:
    with pytest.raises(ErrorGroup) as raised:
        raise_for(done, look(CANARY), look(after))
    return raised.value


def test_a_run_without_errors_is_no_error() -> None:
    raise_for(Done({"gpu02": ("restart",)}, ()), look(CANARY), look(STOPPED))


def test_a_rollout_that_stopped_tells_how_things_stand_and_what_the_next_apply_begins_with() -> None:
    told = error(Done({}, (ERROR,), STEP))
    assert told.message == f"`chat` was not brought to its spec on 1 host; it stopped in step `{STEP}`"
    assert told.errors == (ERROR,)
    assert told.hint == (
        "decoder-1, prefiller-0 and the proxy go on as they are\n"
        "      decoder-0 gets no requests until it serves as the spec says\n"
        "      mend the cause and run `pdctl apply` again: it goes on where this ended (put users, packages,"
        " files and runtimes in place; start decoders and wait until they are healthy; undrain decoder-0,"
        " drain decoder-1; restart decoder-1 and wait until it is healthy, and 2 more steps)"
    )


def test_files_that_could_not_be_put_are_no_step_that_anything_stopped_in() -> None:
    told = error(Done({}, (ERROR,), "Copy wheels and other bundle files that this host lacks"))
    assert told.message == "`chat` was not brought to its spec on 1 host"


def test_without_a_proxy_nobody_is_said_to_serve() -> None:
    told = error(Done({}, (ERROR,), STEP), replace(STOPPED, proxy="stopped", drained=()))
    assert told.hint is not None and told.hint.startswith("mend the cause and run `pdctl apply` again")


def test_an_engine_that_was_not_seen_healthy_does_not_go_on_as_it_is() -> None:
    """Also where it runs and is not drained, as the only one of its role."""
    after = replace(CANARY, engines=CANARY.engines | {"decoder-0": "slow"})
    told = error(Done({}, (ERROR,), STEP), after)
    assert told.hint is not None
    standing, *_ = told.hint.splitlines()
    assert standing == "decoder-1, prefiller-0 and the proxy go on as they are"


@pytest.mark.parametrize(
    ("command", "way"),
    [
        (
            "pdctl rollback 12",
            "run `pdctl rollback 12` again: it goes on where this ended, and `pdctl apply` would go forward",
        ),
        ("pdctl destroy", "run `pdctl destroy` again: it goes on where this ended"),
    ],
)
def test_another_command_than_apply_goes_on_by_itself(command: str, way: str) -> None:
    with pytest.raises(ErrorGroup) as raised:
        raise_for(Done({}, (ERROR,), STEP), look(CANARY), look(STOPPED), command)
    assert raised.value.hint is not None and f"mend the cause and {way}" in raised.value.hint


def test_a_rollback_that_did_not_come_to_its_end_is_gone_on_with_by_its_own_name() -> None:
    back = Generation(18, "failed", by="ann@desk", restores=12)
    seen = look(CANARY)
    cut_off = replace(seen, seen=replace(seen.seen, kept={"gpu01": Kept(generations=(back,))}))
    (line,) = cut_off.warnings
    assert line.endswith("`pdctl rollback 12` goes on from there, `pdctl apply` forward to the spec")
    ahead = replace(back, restores=None)
    (line,) = replace(seen, seen=replace(seen.seen, kept={"gpu01": Kept(generations=(ahead,))})).warnings
    assert line.endswith("; `pdctl apply` goes on from there")


def test_what_a_generation_is_made_by_is_a_command_that_can_be_run_again() -> None:
    assert (About("").again, About("", 12).again) == ("pdctl apply", "pdctl rollback 12")
