"""A host that is taken out of the spec while engines run on it is told of: no plan reaches it any more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pdctl.apply.look import Look
from pdctl.apply.making import About, what
from pdctl.hosts.observation import Kept, Observation, SpecText
from pdctl.plan import make_plan
from pdctl.spec.model import Host
from tests.examples import desired, spec_path, topology

NAME = "lab-simulator"
TEXT = spec_path(NAME).read_text()


def warnings(*hosts: Host, text: str = TEXT) -> list[str]:
    return look(*hosts, text=text).warnings


def look(*hosts: Host, text: str = TEXT) -> Look:
    """At `hosts` after generation 7, made from `text`."""
    here = topology(NAME)
    now = replace(here, spec=here.spec.model_copy(update={"hosts": list(hosts)}))
    kept = {hosts[0].name: Kept(spec_text=SpecText(7, text))}
    seen = Observation({}, {}, {}, {}, {}, {}, {}, {}, kept=kept)
    want = desired(NAME)
    return Look(now, Path(), want, seen, make_plan(here, want, want, want))


def test_a_host_that_left_with_engines_on_it_is_named_with_them_and_the_way_to_stop_them() -> None:
    first, second, *_ = topology(NAME).spec.hosts
    (line,) = warnings(first)
    names = ", ".join(each.name for each in topology(NAME).instances if each.host == second.name)
    assert names and line.startswith(f"{second.name} left the spec, but generation 7 put {names} there")
    assert "put it back without instances" in line


def test_the_history_tells_for_good_what_was_left_behind() -> None:
    first, second, *_ = topology(NAME).spec.hosts
    assert "behind" not in what(look(first, second), About(TEXT))
    names = ", ".join(each.name for each in topology(NAME).instances if each.host == second.name)
    assert what(look(first), About(TEXT)).endswith(f"; left {second.name} behind with {names}")
    assert what(look(first), About(TEXT, restores=3)).startswith("roll back to 3: ")


def test_the_proxy_is_told_of_too() -> None:
    here = topology(NAME)
    (other,) = [host for host in here.spec.hosts if host.name != here.proxy.host]
    (line,) = warnings(other)
    assert "proxy there" in line


def test_a_host_with_another_name_but_the_same_address_did_not_leave() -> None:
    first, second, *_ = topology(NAME).spec.hosts
    assert warnings(first, second.model_copy(update={"name": "renamed"})) == []


def test_a_host_on_which_nothing_was_may_leave() -> None:
    spare = "  - {name: h9, address: 198.18.0.99}\n"
    text = TEXT.replace("engine:", f"{spare}engine:", 1)
    text = text.replace("count: 2", "count: 2, placement: [h2]").replace(
        "count: 1", "count: 1, placement: [h1]"
    )
    assert "h9" in text and warnings(*topology(NAME).spec.hosts, text=text) == []


@pytest.mark.parametrize("text", ["", "cluster: x\nnonsense: 1\n", "\ufffd\ufffd", TEXT])
def test_nothing_is_said_where_nobody_left_or_nobody_knows(text: str) -> None:
    assert warnings(*topology(NAME).spec.hosts, text=text) == []
