"""Apply ended by SIGINT or SIGKILL at any moment: nothing lost or half-written, the next one converges."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.hosts.kills import BEFORE, Heard, Point, Said, draw
from tests.hosts.line import CONFIG, HOSTS, RECORD, UNITS, Line, changed, soak
from tests.hosts.mended import leftovers
from tests.hosts.midway import children
from tests.hosts.plays import inside

pytestmark = pytest.mark.hosts

FEW = 8
MANY = int(os.environ.get("PDCTL_KILL_POINTS", "56"))
ENOUGH = min(50, MANY)  # points that a soak must have seen, however slow the machine is
WHILE_LOOKING_S = 0.7
ENOUGH_S = float(os.environ.get("PDCTL_KILL_S", "3600"))
# Each of the two differs from the other in a restart of every engine, and in one that comes or goes.
OTHER: dict[str, Any] = {
    "decoders": {"count": 3, "env": {"KILLS": "1"}},
    "prefillers": {"count": 1, "env": {"KILLS": "1"}},
}
GOALS: dict[str, dict[str, Any]] = {"grow": OTHER, "shrink": {}}
INTERRUPTED = "interrupted; run the same command again to go on"


@dataclass
class Goal:
    """A spec, how an undisturbed apply came to it, and what the hosts then held."""

    timeline: list[Said]
    files: dict[str, set[str]]
    records: dict[str, Any]
    instances: set[str]


@dataclass
class Kills:
    """Both goals, the one that the hosts are at, and what was seen, a row for each point."""

    line: Line
    goals: dict[str, Goal]
    at: str
    until: float = field(default_factory=lambda: time.monotonic() + ENOUGH_S)
    rows: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def aim(self) -> str:
        return next(name for name in GOALS if name != self.at)

    def __str__(self) -> str:
        heads = ("point", "signal", "change", "hit", "seconds", "the next apply did", "restarted", "seconds")
        lines = [heads, tuple("---" for _ in heads), *self.rows]
        return "\n".join("| " + " | ".join(row) + " |" for row in lines)


@pytest.fixture(scope="module")
def kills(unbound: Line, request: pytest.FixtureRequest) -> Iterator[Kills]:
    unbound.mend()
    temporary = unbound.folder / "t"
    temporary.mkdir(exist_ok=True)
    found = Kills(unbound, {name: reached(unbound, name) for name in GOALS}, "shrink")
    yield found
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n\n{found}\n")


def reached(line: Line, goal: str) -> Goal:
    heard = set_out(line, goal)
    timeline = heard.wait(120)
    assert heard.running.returncode == 0, timeline
    return Goal(timeline, files(line), records(line), set(line.lives()))


def set_out(line: Line, goal: str, bare: bool = True) -> Heard:
    """An apply that has every engine restarted. `bare`: it also brings wheels and an environment to h2."""
    if bare:
        line.inside("rm -rf /opt/pdctl/venvs/* /opt/pdctl/bundle/wheels", "h2")
    line.write(**GOALS[goal])
    return Heard(line.start("apply", "--yes", env=surroundings(line)))


def surroundings(line: Line) -> dict[str, str]:
    return {"TMPDIR": str(line.folder / "t")}


def files(line: Line) -> dict[str, set[str]]:
    """Digests of the files that are in place, by host and path."""
    sums = f"sha256sum {CONFIG}/* {UNITS}/pdctl-line-*.service"
    rows = ((host, row.split()) for host in HOSTS for row in inside(line.lab, host, sums).splitlines())
    return {f"{host}:{row[1]}": {row[0]} for host, row in rows if not row[1].endswith(".pdctl-new")}


def records(line: Line) -> dict[str, Any]:
    """What is recorded as pdctl's, and as there before it."""
    found = {}
    for host in HOSTS:
        record = json.loads(inside(line.lab, host, f"cat {RECORD}"))
        rows = {(row["kind"], row.get("path") or row["name"]): row["created"] for row in record["resources"]}
        found[host] = (rows, record["pending"], sorted(record["extras"]), record.get("owed", {}))
    return found


@pytest.mark.parametrize(
    "seed", [*range(FEW), *(pytest.param(seed, marks=soak) for seed in range(FEW, MANY))]
)
def test_an_apply_ended_at_a_random_point_loses_nothing_and_the_next_converges(
    kills: Kills, seed: int
) -> None:
    if time.monotonic() > kills.until:
        assert len(kills.rows) >= ENOUGH, f"{len(kills.rows)} points in {ENOUGH_S:g} s"
        pytest.skip(f"no time is left of {ENOUGH_S:g} s")
    point = draw(seed, kills.goals[kills.aim].timeline)
    end_and_follow(kills, str(seed), point, at_once=at_once(seed))


@soak
@pytest.mark.timeout(3000)
def test_an_apply_killed_where_one_step_ends_and_the_next_begins_loses_nothing(kills: Kills) -> None:
    """Every boundary that an undisturbed apply has, of both changes in turn."""
    left = {name: [said.line for said in kills.goals[name].timeline if said.is_step] for name in GOALS}
    while any(left.values()):
        steps = left[kills.aim]
        point = Point(signal.SIGKILL, steps.pop(0) if steps else BEFORE, 0.0 if steps else WHILE_LOOKING_S)
        end_and_follow(kills, "boundary", point, at_once=False, bare=False)


def end_and_follow(kills: Kills, name: str, point: Point, *, at_once: bool, bare: bool = True) -> None:
    """Set out for the other goal, end that at the point, apply again, and be there."""
    line, before, aim = kills.line, kills.goals[kills.at], kills.aim
    goal = kills.goals[aim]
    heard = set_out(line, aim, bare)
    hit = heard.end_at(point, 120)
    took = time.monotonic() - heard.started
    assert_ended_as_asked(line, heard, point.number)
    lives = {} if at_once else line.lives()
    if not at_once:
        assert_whole(files(line), before, goal)

    began = time.monotonic()
    ran = line.pdctl("apply", "--yes", "--json", env=surroundings(line)).must()
    again = time.monotonic() - began
    kills.at = aim
    line.broken = False
    assert line.diff()["empty"] and leftovers(line) == ""
    assert files(line) == goal.files and records(line) == goal.records
    assert set(line.lives()) == goal.instances and children(line) == []
    assert list((line.folder / "t").iterdir()) == []
    did = sum(len(some) for some in ran.json["did"].values())
    restarted = ", ".join(sorted(changed(lives, line.lives()))) or "nothing"
    restarted = "followed at once" if at_once else restarted
    told = [name, point.number.name, aim, hit, f"{took:.1f}", f"{did} things", restarted, f"{again:.1f}"]
    kills.rows.append(tuple(told))


def at_once(seed: int) -> bool:
    """Whether the next apply begins while the hosts may still be at work for the one that was ended."""
    return seed % 3 == 0


def assert_whole(found: dict[str, set[str]], before: Goal, after: Goal) -> None:
    """Each file is as it was or as it shall be."""
    known = {path: before.files.get(path, set()) | after.files.get(path, set()) for path in found}
    assert {path: digest for path, digest in found.items() if not digest <= known[path]} == {}


def assert_ended_as_asked(line: Line, heard: Heard, number: signal.Signals) -> None:
    said = [row.line for row in heard.timeline]
    assert not any("Traceback" in row for row in said), said
    if heard.running.returncode == 0:  # it was just through
        return
    if number is signal.SIGINT:
        assert heard.running.returncode == 130 and INTERRUPTED in said and children(line) == [], said
    else:
        assert heard.running.returncode == -number
