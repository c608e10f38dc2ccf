"""What a running proxy takes up by itself is an update, not a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.plan import make_plan
from pdctl.plan.model import Plan
from pdctl.state import Unit
from pdctl.state.codec import resource_from_json, resource_to_json
from tests.plan.test_restarts import key, unit, without_peers

CONTROL = "/run/pdctl/chat/proxy/control.sock"
WANTED = unit("proxy", "proxy", loaded="sha256:2", control=CONTROL)
KEY = key("proxy")


def plan(observed: Unit, recorded: Unit | None = None) -> Plan:
    return make_plan(
        without_peers(), {KEY: WANTED}, {KEY: observed}, {KEY: recorded if recorded is not None else observed}
    )


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({"loaded": "sha256:1"}, ("takes up the new list of instances without a restart",)),
        ({"drained": ("decoder-1", "prefiller-0")}, ("undrain decoder-1, prefiller-0",)),
        ({"sides": ("decoder-1",)}, ("pair all instances again",)),
        (
            {"loaded": "sha256:1", "drained": ("decoder-1",)},
            ("takes up the new list of instances without a restart", "undrain decoder-1"),
        ),
    ],
)
def test_it_is_an_update_of_the_running_process(there: dict[str, object], why: tuple[str, ...]) -> None:
    done = plan(replace(WANTED, **there))  # type: ignore[arg-type]
    assert [(change.key, change.why) for change in done.changes] == [(KEY, why)]
    assert not done.restarts and KEY in done.steps[-1].keys


def test_a_restart_takes_up_everything_and_says_only_why_it_restarts() -> None:
    done = plan(replace(WANTED, revision="r0", loaded="sha256:1"))
    assert [change.why for change in done.changes] == [
        ("runs with an older configuration", "works with another list of instances")
    ]
    assert [restart.instance for restart in done.restarts] == ["proxy"]


def test_a_proxy_that_does_not_answer_is_restarted() -> None:
    done = plan(replace(WANTED, loaded=""), WANTED)
    assert [restart.causes for restart in done.restarts] == [("its control socket does not answer",)]
    assert done.changes[0].drift and not done.restarts[0].hidden


def test_a_stopped_proxy_has_loaded_nothing_and_drains_nobody() -> None:
    stopped = replace(WANTED, active="inactive", revision="", loaded="", drained=())
    done = plan(stopped, WANTED)
    assert done.changes[0].why == ("active inactive -> active",) and not done.restarts


def test_what_an_operator_drained_by_hand_is_drift() -> None:
    done = plan(replace(WANTED, drained=("decoder-1",)), WANTED)
    assert [row.what for row in done.drift] == [("decoder-1 is drained",)]
    assert done.changes[0].drift


def test_a_record_of_a_pdctl_that_knew_no_control_socket_is_no_drift() -> None:
    row = resource_to_json(WANTED)
    for name in ("loaded", "drained", "sides", "control"):
        del row[name]
    recorded = resource_from_json(row)
    assert isinstance(recorded, Unit) and recorded.loaded == "" and recorded.drained == ()
    assert plan(WANTED, recorded).empty


def test_the_record_keeps_the_path_so_that_a_recorded_proxy_can_be_asked() -> None:
    assert resource_to_json(WANTED)["control"] == CONTROL
