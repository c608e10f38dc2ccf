"""What targets bring along or hold back, drift, and what is nobody's: on the screen before the rest."""

from __future__ import annotations

from dataclasses import replace

from pdctl.plan import make_plan
from pdctl.plan.estimate import estimate
from pdctl.plan.foreign import Foreign
from pdctl.plan.radius import radius
from pdctl.plan.reasons import Ground, find_reasons
from pdctl.state import Key
from tests.plan.changes import SPEC, edit
from tests.plan.test_targets import STALE, chosen
from tests.views.screens import screen, told

SEQS = ("max_num_seqs: 64", "max_num_seqs: 128")


def test_what_comes_along_is_named_with_its_reason_before_the_changes() -> None:
    done = edit(SEQS, spec=STALE, earlier=STALE)
    selection, plan = chosen(done, instances="decoder-1")
    text = screen(replace(done, plan=plan), details=replace(told(done), selection=selection), columns=None)
    along = "LMCache never renews a peer, and decoder-1 restarts"
    assert text.startswith(
        "Beyond --instance decoder-1:\n"
        f"  + prefiller-0 on h1 comes along: {along}\n"
        f"  + prefiller-1 on h2 comes along: {along}\n\n"
        "The spec since generation 7:\n"
    )
    assert "\nPlan for `chat` within --instance decoder-1: 2 to update, 3 to restart\n" in text


def test_what_stays_is_named_with_its_reason() -> None:
    done = edit(("count: 2\n  decoders", "count: 1\n  decoders"))
    selection, plan = chosen(done, layers="config")
    text = screen(replace(done, plan=plan), details=replace(told(done), selection=selection), columns=None)
    assert "  = file /etc/pdctl/chat/prefiller-1.env on h2 stays: prefiller-1 still runs\n" in text


def test_a_plan_within_targets_that_is_empty_says_within_what() -> None:
    done = edit(SEQS)
    selection, plan = chosen(done, roles="prefiller")
    text = screen(replace(done, plan=plan), details=replace(told(done), selection=selection))
    assert text.endswith("Nothing to do within --role prefiller: `chat` is as its spec says\n")


def test_drift_stands_first_then_what_is_not_pdctls_own_then_the_changes() -> None:
    plain = edit(spec=SPEC)
    key = Key("h1", "file:/etc/pdctl/chat/proxy.json")
    observed = {**plain.observed, key: replace(plain.observed[key], mode="0666")}
    plan = make_plan(plain.topology, plain.desired, observed, plain.observed)
    ground = Ground(plain.topology, plain.reading, plain.desired, earlier=SPEC)
    foreign = Foreign("gpu", "3", "decoder-0", "h2", 812, "python3", "bob", memory_mib=4096)
    details = replace(
        told(plain),
        reasons=find_reasons(plan, ground),
        estimates=estimate(plain.topology, plan, plain.desired, {}),
        radius=radius(plain.topology, plan, observed),
        foreign=(foreign,),
    )
    text = screen(replace(plain, plan=plan), details=details)
    assert text == (
        "Changed outside pdctl since the last apply:\n"
        "  ! h1  file /etc/pdctl/chat/proxy.json  mode 0666 -> 0640\n\n"
        "Also seen, and left as it is:\n"
        "  ! h2  GPU 3 (decoder-0) is used by python3, pid 812 of bob, 4096 MiB\n\n"
        "Changes:\n  h1\n"
        "    proxy\n"
        "      ~ file /etc/pdctl/chat/proxy.json  mode 0666 -> 0640; drift\n\n"
        "Order:\n  1. Put users, packages, files and runtimes in place (h1)  about 2 s\n\n"
        "Plan for `chat`: 1 to update, 1 drifted\n"
        "Touches the proxy; about 2 s; prefillers, decoders and the proxy keep serving\n"
    )


def test_an_engine_that_was_not_seen_healthy_was_not_changed_outside_pdctl() -> None:
    plain = edit(spec=SPEC)
    why = {Key("h2", "unit:pdctl-chat-decoder-0.service"): "did not become healthy in 10 s"}
    there = plain.observed
    plan = make_plan(plain.topology, plain.desired, there, there, pending=frozenset(why), unproven=why)
    details = replace(
        told(plain),
        estimates=estimate(plain.topology, plan, plain.desired, {}),
        radius=radius(plain.topology, plan, there),
    )
    text = screen(replace(plain, plan=plan), details=details)
    assert text == (
        "Left unfinished by the last apply:\n"
        "  ! h2  unit pdctl-chat-decoder-0.service  did not become healthy in 10 s; apply\n"
        "      asks it again\n\n"
        "Order:\n  1. Start decoders and wait until they are healthy (h2)  about 4 s\n\n"
        "Plan for `chat`: 1 to ask for health\n"
    )
