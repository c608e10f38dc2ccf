"""`pdctl destroy` says what it does: all of it, in the order of its playbook."""

from __future__ import annotations

from collections.abc import Mapping

from pdctl.plan import Plan, make_plan
from pdctl.plan.document import Details, plan_document
from pdctl.plan.radius import radius
from pdctl.plan.removal import dismantled
from pdctl.state import Key
from pdctl.views.plan import summary
from tests.plan.changes import edit


def destroyed(away: Mapping[str, str] | None = None) -> Plan:
    """The plan of an empty wish, the hosts in `away` left out."""
    done = edit()
    seen = {key: row for key, row in done.observed.items() if key.host not in (away or {})}
    plan = make_plan(done.topology, {}, seen, seen, unreachable=away)
    assert away or not any(step.outage for step in plan.steps)  # all of them are there
    found = dismantled(done.topology, plan, seen)
    outages = radius(done.topology, found, seen).outages
    assert outages == tuple(step.outage for step in found.steps if step.outage)
    return found


def test_the_order_is_that_of_the_playbook_and_says_from_when_on_nothing_is_answered() -> None:
    steps = destroyed().steps
    assert [(step.title, step.outage) for step in steps] == [
        ("Remove the proxy", "no request is answered from then on"),
        ("Remove prefillers", ""),
        ("Remove decoders", ""),
        ("Remove everything else that was recorded", ""),
    ]
    assert {key.id.partition(":")[0] for step in steps[:-1] for key in step.keys} == {"unit"}
    assert not any(key.id.startswith("unit:") for key in steps[-1].keys)


def test_a_proxy_that_cannot_be_reached_is_said_to_go_on() -> None:
    [first, *rest] = destroyed({"h1": "timed out"}).steps
    assert first.outage == "h1 with the proxy was left out: it goes on taking requests, which fail"
    assert not any(step.outage for step in rest)


def test_what_goes_is_not_said_to_have_left_the_spec() -> None:
    done = edit()
    assert {change.why for change in destroyed().changes} == {("all of the cluster goes",)}
    before = next(key for key in done.observed if key.id.startswith("user:"))
    gone = Key("h1", "file:/etc/pdctl/chat/gone")
    recorded = {**done.observed, gone: done.observed[before]}
    plan = make_plan(done.topology, {}, done.observed, recorded, found_before={before})
    whys = {change.key: change.why for change in dismantled(done.topology, plan, done.observed).changes}
    assert whys[before] == ("it was there before pdctl, and stays",)
    assert whys[gone] == ("it is gone already",)


def test_with_nothing_to_do_it_is_said_what_the_hosts_are_as() -> None:
    done = edit()
    plan = make_plan(done.topology, {}, {}, {})
    assert summary(plan_document(plan, Details(goal="nothing"))) == (
        "Nothing to do: nothing of `chat` is there"
    )
    back = plan_document(done.plan, Details(goal="generation 3"))
    assert summary(back) == "Nothing to do: `chat` is as generation 3 says"
    assert plan_document(done.plan)["goal"] == "its spec"
