"""Imports that would fail in a service, found on real hosts before anything is switched to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.line import HOSTS, Line

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]
OTHER = "/srv/other"
SHADOW = f"install -d {OTHER}; echo > {OTHER}/pdctl_simulator.py"


@pytest.fixture
def shadowed(line: Line) -> Iterator[Line]:
    """h1 has a module of the engine's name outside its environment; nothing uses it yet."""
    line.inside(SHADOW)
    yield line
    for host in HOSTS:
        line.inside(f"rm -rf {OTHER}", host)


def ask_for_it(line: Line) -> None:
    line.write()
    for role in ("prefillers", "decoders"):
        line.spec["serving"][role]["env"] = {"PYTHONPATH": OTHER}
    line.save()


def test_no_engine_is_switched_to_what_would_not_load_there(shadowed: Line) -> None:
    line = shadowed
    before = line.lives()
    ask_for_it(line)
    ran = line.pdctl("apply", "--yes").must(1)
    assert "h1" in ran.err and "tried as pdctl with the variables of" in ran.err, ran.err
    assert f"pdctl_simulator comes from {OTHER}/pdctl_simulator.py, not from this environment" in ran.err
    assert "nothing was switched to it, and what ran before goes on" in ran.err
    assert line.lives() == before
    rows = [change for change in line.diff()["changes"] if change["id"].startswith("venv:")]
    assert [row["host"] for row in rows] == ["h1"], "h2 has been tried, h1 not"
    assert rows[0]["why"] == ["its imports have not been tried as its services start it"]


def test_once_it_loads_the_next_apply_goes_on_without_building_it_again(shadowed: Line) -> None:
    line = shadowed
    ask_for_it(line)
    line.pdctl("apply", "--yes").must(1)
    built = line.inside("stat -c '%i %n' /opt/pdctl/venvs/*/bin")
    line.inside(f"rm -rf {OTHER}")
    line.apply("--no-verify")
    assert line.diff()["empty"]
    assert line.inside("stat -c '%i %n' /opt/pdctl/venvs/*/bin") == built


def test_a_rollback_to_what_was_tried_before_tries_nothing_again(line: Line) -> None:
    number = line.pdctl("history", "--json").must().json["generations"][0]["number"]
    for role in ("prefillers", "decoders"):
        line.spec["serving"][role]["env"] = {"PYTHONPATH": "/srv"}
    line.save()
    line.apply("--no-verify")
    ran = line.pdctl("rollback", str(number), "--yes", "--no-verify").must()
    assert "venv" not in ran.out, ran.out
