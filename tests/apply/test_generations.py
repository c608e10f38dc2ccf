"""What hosts keep, added up: numbers, what is retained, what was cut off, who has part in the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pdctl.apply.ages import age
from pdctl.apply.generations import (
    bygone_lines,
    complete,
    current,
    held_at,
    host_rows,
    life_of,
    manifest_header,
    next_number,
    numbers,
    oldest_kept,
    one_life,
    retained,
    rows_digest,
    summary,
    takes_part,
    unfinished,
)
from pdctl.hosts.observation import Generation, JournalEntry, Kept, SpecText
from pdctl.plan.make import make_plan
from pdctl.state import Directory, File, Key, State, Venv, key_of
from tests.examples import desired, topology

NAME = "lab-simulator"


def generation(number: int, state: str = "complete", **more: Any) -> Generation:
    return Generation(number, state, "2030-01-01T00:00:00+00:00", "ann@desk", "1", "what", 720.0, **more)


def test_what_a_host_keeps_of_an_earlier_life_is_left_out_and_told() -> None:
    """It could not be reached when the cluster was destroyed; numbers began anew on the other."""
    old = [replace(generation(n, life="a"), age_s=9000.0 - n) for n in (2, 3, 12)]
    found = {
        "h1": kept(generation(1, life="b"), generation(2, life="b")),
        "h2": kept(*old, spec_text=SpecText(12, "cluster: old\n"), journal=JournalEntry(12, "x", "end", 1.0)),
    }
    now = one_life(found)
    assert numbers(now) == [1, 2] and current(now) == 2 and next_number(now) == 3 and life_of(now) == "b"
    assert now["h1"] == found["h1"] and now["h2"].spec_text is None and now["h2"].journal is None
    (line,) = bygone_lines(now)
    assert line.startswith("h2 still keeps generations 2 to 12 of before the cluster was destroyed")
    assert one_life({"h2": found["h2"]}) == {"h2": found["h2"]} and life_of({}) == ""


def kept(*generations: Generation, **more: Any) -> Kept:
    return Kept(generations=generations, mark="m", **more)


def venvs(number: int, *names: str, state: str = "complete") -> Generation:
    return generation(number, state, venvs=tuple(f"/opt/pdctl/venvs/{name}" for name in names))


def paths(keys: frozenset[Key]) -> set[str]:
    return {f"{key.host} {key.id.rsplit('/', 1)[1]}" for key in keys if key.id.startswith("venv:")}


def test_numbers_go_on_from_the_highest_of_all_hosts() -> None:
    found = {"h1": kept(generation(3), generation(5, "failed")), "h2": kept(generation(7)), "h3": kept()}
    assert (next_number(found), complete(found), current(found)) == (8, [3, 7], 7)
    assert (next_number({}), current({})) == (1, 0)


def test_a_generation_is_complete_where_every_host_that_has_it_says_so() -> None:
    found = {"h1": kept(generation(1), generation(2)), "h2": kept(generation(1), generation(2, "failed"))}
    assert complete(found) == [1]


def test_a_host_held_at_a_generation_what_it_had_last_reached() -> None:
    one = kept(generation(2), generation(4, "started"), generation(6))
    assert [row and row.number for row in (held_at(one, n) for n in (1, 2, 5, 6, 9))] == [None, 2, 2, 6, 6]


def test_the_environments_of_what_is_kept_are_retained_with_their_folders() -> None:
    found = {"h1": kept(*(venvs(n, f"e{n}") for n in (1, 2, 3)))}
    assert paths(retained(found, 10)) == {"h1 e1", "h1 e2", "h1 e3"}
    assert paths(retained(found, 2)) == {"h1 e2", "h1 e3"}
    assert paths(retained(found, 1)) == {"h1 e3"}
    assert retained(found, 0) == frozenset()
    assert Key("h1", "directory:/opt/pdctl/venvs") in retained(found, 1)


def test_a_host_that_had_no_part_for_long_keeps_what_it_holds() -> None:
    found = {
        "h1": kept(*(venvs(n, f"e{n}") for n in (1, 2, 3, 4))),
        "h2": kept(venvs(1, "old"), venvs(2, "e2")),
    }
    assert paths(retained(found, 2)) == {"h1 e3", "h1 e4", "h2 e2"}


def test_what_was_never_reached_retains_nothing() -> None:
    found = {"h1": kept(venvs(1, "e1"), venvs(2, "e2", state="failed"))}
    assert paths(retained(found, 10)) == {"h1 e1"}


def test_the_oldest_that_is_kept_counts_only_what_can_be_rolled_back_to() -> None:
    assert [oldest_kept([2, 5, 9], keep) for keep in (1, 2, 3, 4)] == [9, 5, 2, 0]


def test_hosts_with_work_have_part_and_those_whose_history_says_something_else() -> None:
    want, here = desired(NAME), topology(NAME)
    reached = {host: kept(generation(1, digest=rows_digest(host_rows(want, host)))) for host in here.hosts}
    nothing = make_plan(here, want, want, want)
    assert nothing.empty and takes_part(reached, nothing, want) == {}
    behind = {**reached, "h2": kept(generation(1, digest="another"))}
    assert list(takes_part(behind, nothing, want)) == ["h2"]
    cut_off = {**reached, "h1": replace(reached["h1"], generations=(generation(1, "started"),))}
    assert list(takes_part(cut_off, nothing, want)) == ["h1"]
    gone = {key: value for key, value in want.items() if key.host != "h2"}
    assert list(takes_part(reached, make_plan(here, want, gone, want), want)) == ["h2"]


def test_a_host_that_holds_nothing_and_never_did_has_no_part() -> None:
    assert takes_part({"spare": kept()}, make_plan(topology(NAME), {}, {}, {}), {}) == {}


def test_the_digest_tells_everything_that_is_rendered() -> None:
    one: State = {key_of("h1", r): r for r in (Directory("/x"), File("/x/y", "sha256:1", content=b"a"))}
    other = {**one, Key("h1", "file:/x/y"): File("/x/y", "sha256:2", content=b"b")}
    assert rows_digest(host_rows(one, "h1")) != rows_digest(host_rows(other, "h1"))
    assert rows_digest(host_rows(one, "h2")) == ""
    header = manifest_header(host_rows({Key("h1", "venv:/v"): Venv("/v", "d", "3.11")}, "h1"), {"by": "ann"})
    assert (header["venvs"], header["by"]) == (["/v"], "ann")


ENDS = [
    ("started", "begin", 'was cut off in step "Restart decoder-1"'),
    ("started", "end", 'was cut off after step "Restart decoder-1"'),
    ("failed", "failed", 'failed in step "Restart decoder-1"'),
    ("interrupted", "begin", 'was interrupted in step "Restart decoder-1"'),
]


@pytest.mark.parametrize(("state", "event", "words"), ENDS)
def test_an_apply_that_did_not_come_to_its_end_says_where_it_was(state: str, event: str, words: str) -> None:
    entry = JournalEntry(7, "Restart decoder-1", event, 700.0)
    found = {
        "h1": kept(generation(6), generation(7, state), journal=entry),
        "h2": kept(generation(7, state), journal=JournalEntry(7, "Put", "end", 710.0)),
    }
    assert unfinished(found) == f"generation 7 (ann@desk, 12 min ago) {words}"


def test_nothing_is_unfinished_after_a_whole_one_and_a_journal_of_before_does_not_count() -> None:
    old = JournalEntry(1, "Put", "begin", 1.0)
    assert unfinished({"h1": kept(generation(2), journal=old)}) == ""
    assert unfinished({}) == ""
    assert unfinished({"h1": kept(generation(2, "started"), journal=old)}).endswith("before its first step")


def test_the_summary_counts_and_names() -> None:
    here, want = topology(NAME), desired(NAME)
    assert summary(make_plan(here, want, {}, {})) == f"create {len(want)}"
    assert summary(make_plan(here, want, want, want)) == "record what is there"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (7200, "2 h"),
        (86400, "1 day"),
        (4e5, "4 days"),
    ],
)
def test_ages_are_one_round_number(seconds: float, words: str) -> None:
    assert age(seconds) == words
