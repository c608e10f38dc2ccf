"""Where and when pdctl runs: in deep folders, for hosts with long names, by a clock that differs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.hosts.clocks import another_clock, elsewhen
from tests.hosts.line import CONFIG, HOSTS, Line, changed, soak
from tests.hosts.mended import converges
from tests.hosts.midway import ended
from tests.labs import until

pytestmark = pytest.mark.hosts

DEEP = 95  # characters of a home of which ssh's control sockets, with 108 to hold, would find no room


def test_a_deep_folder_and_long_host_names_are_no_hindrance(
    line: Line, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also as home and for temporary files; the sockets of shared connections still find a place."""
    top = tmp_path_factory.mktemp("deep")
    deep = top / ("d" * (DEEP - len(str(top)) - 1))
    deep.mkdir()
    assert len(str(deep)) == DEEP
    names = [f"{host}-{'n' * (60 - len(host) - 1)}" for host in HOSTS]
    hosts = [row | {"name": name} for row, name in zip(line.spec["hosts"], names, strict=True)]
    there = Line(line.lab, deep)
    there.write({"hosts": hosts})
    for host in HOSTS:
        line.inside(f"chmod 600 {CONFIG}/*.env", host)
    surroundings = {"HOME": str(deep), "TMPDIR": str(deep), "XDG_CACHE_HOME": cache()}
    ran = there.pdctl("apply", "--yes", "--json", env=surroundings).must()
    assert sorted(ran.json["did"]) == names and ran.json["proof"]["ok"]
    assert "not shared" not in ran.err
    assert [path.name for path in deep.iterdir() if path.name.startswith("pdctl-")] == []
    assert line.diff()["empty"]


def cache() -> str:
    return os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))


@pytest.mark.parametrize("skew", ["+3d", pytest.param("-3d", marks=soak)])
def test_a_clock_that_differs_from_the_hosts_changes_nothing(line: Line, skew: str) -> None:
    """The controller's is three days ahead, or behind; what was cut off by one is finished by the other."""
    lives = line.lives()
    line.write(decoders={"count": 2, "env": {"SKEW": skew}})
    line.inside(f"touch -d '2 days' {CONFIG}/proxy.json; chmod 600 {CONFIG}/proxy.json")
    running = line.start("apply", "--yes", env=elsewhen(skew))
    until(lambda: running.poll() is not None or changed(lives, line.lives()), timeout=60)
    running.kill()
    ended(running)
    told = line.pdctl("diff").must().err
    assert "was cut off" in told and not re.search(r"-\d+ (s|min|h|days)", told), told
    ran = line.pdctl("apply", "--yes", env=elsewhen(skew)).must()
    assert "Text equal" in ran.err
    history = line.pdctl("history").must().out
    assert not re.search(r"-\d+ (s|min|h|days) ago", history), history
    assert line.diff()["empty"]
    converges(line)


@pytest.mark.parametrize("skew", ["+3d", pytest.param("-3d", marks=soak)])
def test_a_host_whose_clock_differs_from_the_others_changes_nothing(line: Line, skew: str) -> None:
    """That of h2 is three days ahead, or behind; what is cut off then is finished once it is right again."""
    negative = re.compile(r"-\d+ (s|min|h|days)")
    lives = line.lives()
    with another_clock(line, "h2", skew):
        line.write(decoders={"count": 2, "env": {"SKEW": f"there {skew}"}})
        assert "Text equal" in line.apply().err
        assert changed(lives, line.lives()) == {"decoder-0", "decoder-1"} and line.diff()["empty"]
        history = line.pdctl("history").must().out
        lives = line.lives()
        line.write(decoders={"count": 2, "env": {"SKEW": f"cut off {skew}"}})
        running = line.start("apply", "--yes")
        until(lambda: running.poll() is not None or changed(lives, line.lives()), timeout=60)
        running.kill()
        ended(running)
        told = line.pdctl("diff").must().err
    assert "was cut off" in told and not negative.search(told + history), told + history
    line.apply()
    for words in ("diff", "history", "status"):
        ran = line.pdctl(words).must()
        assert not negative.search(ran.out + ran.err), ran
    assert line.diff()["empty"]
    converges(line)
