"""A rollback installs nothing: what is not there any more stops it before anything is changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pdctl.apply.look import Look
from pdctl.apply.rollback import refuse_missing
from pdctl.errors import ApplyError, ErrorGroup
from pdctl.hosts.observation import Observation
from pdctl.plan import make_plan
from pdctl.state import File, Key, Package, Resource, Venv, key_of
from tests.examples import topology

NAME = "lab-simulator"
HINT = "install it anew: pdctl history --spec 3 > old.yaml && pdctl apply old.yaml"
DRIVER = Package("nvidia-driver-580-server-open", "580.65.06-0ubuntu1", hold=True)
NUMA = Package("libnuma1", deb="libnuma1")
MODEL = File("/opt/pdctl/models/tiny/config.json", "sha256:1", source="models/tiny/config.json")
CONFIG = File("/etc/pdctl/chat/decoder-0.yaml", "sha256:2", content=b"x")
VENV = Venv("/opt/pdctl/venvs/vllm-1", "d", "3.12", requirements=("vllm==0.11.0",))
HELD = (DRIVER, NUMA, MODEL, CONFIG, VENV)


def refuse(*there: Resource) -> None:
    """On a host that held HELD, and has `there` now."""
    want, now = ({key_of("h1", row): row for row in rows} for rows in (HELD, there))
    plan = make_plan(topology(NAME), want, now, now)
    assert all(isinstance(change.key, Key) for change in plan.changes)
    seen = Observation(now, now, {}, {}, {}, {}, {}, {})
    refuse_missing(Look(topology(NAME), Path(), want, seen, plan), 3)


def now_with(was: Resource, become: Resource | None) -> list[Resource]:
    return [row for row in (become if row is was else row for row in HELD) if row is not None]


@pytest.mark.parametrize(
    ("was", "become", "message"),
    [
        (VENV, None, "/opt/pdctl/venvs/vllm-1 of generation 3 is gone"),
        (VENV, replace(VENV, damage=("a.py changed",)), "vllm-1 of generation 3 is damaged (a.py changed)"),
        (DRIVER, None, f"package {DRIVER.name} {DRIVER.version} of generation 3 is not installed any more"),
        (
            DRIVER,
            replace(DRIVER, version="580.95.05-0ubuntu1"),
            f"package {DRIVER.name} {DRIVER.version} of generation 3 is installed as 580.95.05-0ubuntu1",
        ),
        (NUMA, None, "package libnuma1 of generation 3 is not installed any more"),
        (MODEL, None, "/opt/pdctl/models/tiny/config.json of generation 3 is gone"),
        (MODEL, replace(MODEL, digest="sha256:9"), "config.json of generation 3 is damaged (content)"),
        (MODEL, replace(MODEL, mode="0600"), "config.json of generation 3 is damaged (mode 0600 -> 0644)"),
    ],
)
def test_what_would_have_to_be_installed_is_named_with_its_host_and_the_way_around(
    was: Resource, become: Resource | None, message: str
) -> None:
    with pytest.raises(ApplyError) as caught:
        refuse(*now_with(was, become))
    assert message in caught.value.message and (caught.value.where, caught.value.hint) == ("h1", HINT)


def test_all_of_it_is_named_at_once() -> None:
    with pytest.raises(ErrorGroup) as caught:
        refuse(CONFIG)
    assert [error.where for error in caught.value.errors] == ["h1"] * 4 and caught.value.hint == HINT


@pytest.mark.parametrize(
    ("was", "become"),
    [
        (CONFIG, None),
        (CONFIG, replace(CONFIG, digest="sha256:9")),
        (DRIVER, replace(DRIVER, hold=False)),
        (NUMA, Package("libnuma1", "2.0.18-1")),
    ],
)
def test_what_the_generation_itself_holds_is_no_reason_to_refuse(
    was: Resource, become: Resource | None
) -> None:
    refuse(*now_with(was, become))
