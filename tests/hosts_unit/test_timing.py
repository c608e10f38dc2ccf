"""Where the time of a command goes: laps as they end, their sum as a document and a table."""

from __future__ import annotations

import io
import re
import threading
from pathlib import Path

import pytest
from rich.console import Console

from pdctl.hosts.timing import OUTSIDE, Laps, timing_document
from pdctl.views.timing import show_timing


class Clock:
    """Goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def rows(laps: Laps) -> dict[str, dict[str, object]]:
    return {"/".join(row["part"]): row for row in timing_document(laps)["parts"]}


def test_parts_come_in_the_order_in_which_they_began_with_inner_ones_below(clock: Clock) -> None:
    laps = Laps(clock)
    for name in ("probe", "second look"):
        with laps(name):
            with laps("plan"):
                clock.now += 1
            clock.now += 2
    assert list(rows(laps)) == ["probe", "probe/plan", "second look", "second look/plan", OUTSIDE]
    assert rows(laps)["probe"]["seconds"] == 3.0


def test_hosts_are_told_apart_and_the_slowest_is_named(clock: Clock) -> None:
    laps = Laps(clock)
    with laps("ansible"):
        for host, seconds in (("h1", 1.0), ("h2", 5.0), ("h3", 2.0), ("h1", 0.5)):
            clock.now += 5.0
            laps.add("Start decoders", host, seconds)
    row = rows(laps)["ansible/Start decoders"]
    assert (row["hosts"], row["least_s"], row["median_s"], row["most_s"]) == (3, 1.5, 2.0, 5.0)
    assert row["slowest"] == "h2"
    assert row["seconds"] == 16.0  # from the first beginning, 104, to the last end, 120


def test_what_no_part_covers_is_a_part_of_its_own_and_all_add_up(clock: Clock) -> None:
    laps = Laps(clock, before=0.5)
    with laps("load"):
        clock.now += 1
    clock.now += 0.25
    found = timing_document(laps)
    assert found["total_s"] == 1.75
    assert rows(laps)[OUTSIDE]["seconds"] == 0.75


def test_work_that_fails_is_timed_too(clock: Clock) -> None:
    laps = Laps(clock)
    with pytest.raises(ValueError), laps("probe"):
        clock.now += 3
        raise ValueError
    assert rows(laps)["probe"]["seconds"] == 3.0


def test_hosts_are_timed_in_their_threads_below_the_part_that_waits_for_them() -> None:
    laps = Laps()

    def work(host: str) -> None:
        with laps("log in", host):
            pass

    with laps("probe"):
        threads = [threading.Thread(target=work, args=(f"h{n}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert rows(laps)["probe/log in"]["hosts"] == 8


def test_every_field_of_the_document_is_told(clock: Clock) -> None:
    laps = Laps(clock)
    laps.add("log in", "h1", 1.0)
    found = timing_document(laps)
    page = Path(__file__).parents[2].joinpath("docs/json.md").read_text()
    section = page.split("## Where the time went\n")[1].split("\n## ")[0]
    told = set(re.findall(r"`([a-z_]+)(?:\[\])?`", section))
    assert {*found, *(name for row in found["parts"] for name in row)} <= told


def test_the_table_shows_every_part_and_the_total(clock: Clock) -> None:
    laps = Laps(clock)
    with laps("probe"):
        clock.now += 2
        laps.add("log in", "h7", 1.5)
    text = io.StringIO()
    show_timing(timing_document(laps), Console(file=text, width=120))
    lines = {line.strip().split("  ")[0]: line for line in text.getvalue().splitlines() if line.strip()}
    assert "1.500" in lines["log in"] and "h7" in lines["log in"]
    assert lines["log in"].index("log in") > lines["probe"].index("probe")
    assert "2.000" in lines["all"]
