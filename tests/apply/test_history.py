"""Where `rollback` may go, what `history` shows, and the system as it was, its hosts reached as now."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pdctl.apply import history
from pdctl.apply.generations import broken_lines, next_number, unfinished
from pdctl.apply.history import Past, history_document, spec_of, target
from pdctl.apply.rollback import _reached, _topology, _with_secrets
from pdctl.errors import ApplyError, ErrorGroup, HostError, PdctlError, UnreachableError
from pdctl.hosts.holder import this_process
from pdctl.hosts.observation import Generation, Kept
from pdctl.hosts.sessions import Sessions
from pdctl.hosts.turn import Said
from pdctl.spec.load import parse
from pdctl.state import File, Key
from pdctl.topology import resolve
from pdctl.views.history import show_history
from tests.examples import spec_path, topology

NAME = "lab-simulator"


def past(*generations: Generation, **more: Any) -> Past:
    return Past("sim", {"h1": Kept(generations=generations, **more)}, {})


def made(number: int, state: str = "complete") -> Generation:
    return Generation(number, state, "2030-01-02T03:04:05+00:00", "ann@desk", "1.0", "create 3", 90.0)


@pytest.mark.parametrize(
    ("numbers", "asked", "goes_to"),
    [((1, 2, 3), None, 2), ((1, 2, 3), 1, 1), ((1, 2, 3), 3, 3), ((2, 7), None, 2)],
)
def test_the_way_back_goes_to_the_one_before_or_the_one_named(
    numbers: tuple[int, ...], asked: int | None, goes_to: int
) -> None:
    assert target(past(*map(made, numbers)), asked) == goes_to


def back(number: int, to: int, state: str = "complete") -> Generation:
    return replace(made(number, state), restores=to)


@pytest.mark.parametrize("state", ["failed", "started", "interrupted", "partial"])
def test_after_what_was_not_reached_in_whole_the_way_back_is_to_what_ran_before(state: str) -> None:
    assert target(past(made(1), made(2), made(3, state)), None) == 2
    assert target(past(made(1), made(2), back(3, 1, state)), None) == 2


def test_each_further_way_back_goes_further_and_never_forward_again() -> None:
    one = [made(11), made(12), made(13), made(14)]
    assert target(past(*one), None) == 13
    two = [*one, back(15, 13)]
    assert target(past(*two), None) == 12
    three = [*two, back(16, 12)]
    assert target(past(*three), None) == 11
    assert target(past(*three, made(17)), None) == 16
    with pytest.raises(ApplyError, match=r"before the present one \(17, which brought back 11\)") as caught:
        target(past(*three, back(17, 11)), None)
    assert caught.value.hint and "pdctl history" in caught.value.hint


def test_a_way_back_through_a_way_back_counts_as_what_that_brought_back() -> None:
    seen = past(made(1), made(2), made(3), back(4, 2), made(5), back(6, 4))
    assert target(seen, None) == 1


def test_what_was_not_reached_in_whole_is_skipped_and_refused() -> None:
    seen = past(made(1), made(2, "failed"), made(3), made(4, "started"))
    assert target(seen, None) == 3
    with pytest.raises(ApplyError, match=r"generation 2 was never reached in whole \(failed\)") as caught:
        target(seen, 2)
    assert caught.value.hint == "there are: 1, 3; see `pdctl history`"
    with pytest.raises(ApplyError, match=r"never reached in whole \(cut off\)"):
        target(seen, 4)


@pytest.mark.parametrize("asked", [None, 9])
def test_without_an_earlier_one_there_is_no_way_back(asked: int | None) -> None:
    with pytest.raises(ApplyError, match="no generation"):
        target(past(made(1)), asked)


def test_the_history_is_newest_first_and_marks_the_present_one() -> None:
    seen = Past(
        "sim",
        {"h1": Kept(generations=(made(1), made(2))), "h2": Kept(generations=(made(1), made(3, "failed")))},
        {"h3": UnreachableError("gone", where="h3")},
    )
    document = history_document(seen)
    rows = [(row["number"], row["state"], row["current"], row["hosts"]) for row in document["generations"]]
    assert rows == [
        (3, "failed", False, {"h2": "failed"}),
        (2, "complete", True, {"h1": "complete"}),
        (1, "complete", False, {"h1": "complete", "h2": "complete"}),
    ]
    assert (document["current"], document["unreachable"]) == (2, {"h3": "gone"})


def test_one_that_was_begun_is_running_while_its_lock_is_held_and_cut_off_after() -> None:
    def state(**more: Any) -> str:
        document = history_document(past(made(1), made(2, "started"), **more))
        return str(document["generations"][0]["state"])

    assert state(lock=this_process()) == "running"
    assert state() == "cut off"
    if this_process().machine:
        assert state(lock=replace(this_process(), pid=2**22 + 1)) == "cut off"


def test_hosts_are_reached_as_now_and_hold_what_they_held_then() -> None:
    text = spec_path(NAME).read_text()
    now = topology(NAME)
    joined = now.spec.hosts[0].model_copy(update={"name": "h9", "address": "198.18.0.99"})
    moved = now.spec.hosts[0].model_copy(update={"address": "198.18.0.77"})
    spec = now.spec.model_copy(update={"hosts": [moved, *now.spec.hosts[1:], joined]})
    then = _topology(replace(now, spec=spec), text, 3)
    assert (then.spec.hosts[0].name, then.spec.hosts[0].address) == (moved.name, "198.18.0.77")
    assert then.spec.hosts[-1] == joined and then.instances == now.instances
    assert "h9" not in then.hosts


def test_a_host_that_is_named_no_more_is_an_error_with_the_way_around_it() -> None:
    now = topology(NAME)
    spec = now.spec.model_copy(update={"hosts": now.spec.hosts[:1]})
    with pytest.raises(ApplyError, match=r"hosts that cluster\.yaml does not name any more: h2") as caught:
        _topology(replace(now, spec=spec), spec_path(NAME).read_text(), 3)
    assert caught.value.hint == "pdctl history --spec 3 > old.yaml && pdctl rollback 3 old.yaml"


def test_a_spec_that_this_pdctl_takes_no_more_says_what_does() -> None:
    with pytest.raises(ErrorGroup, match="does not take the spec of generation 3 any more") as caught:
        _topology(topology(NAME), "cluster: sim\nnonsense: 1\n", 3)
    assert caught.value.hint and "the pdctl that made it" in caught.value.hint


def test_how_many_are_kept_is_what_the_present_spec_says() -> None:
    then = parse(spec_path(NAME).read_text(), "then")
    now = then.model_copy(update={"generations": then.generations.model_copy(update={"keep": 3})})
    assert _reached(then, now).generations.keep == 3
    assert resolve(then).instances


def test_secrets_have_the_values_of_now_and_those_that_cannot_be_read_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Key("h1", "file:/etc/pdctl/sim/secrets.env")
    sources = (("A", "env:TEST_A"), ("B", "file:b.txt"))
    state = {key: File("/etc/pdctl/sim/secrets.env", "scrypt:old", secret=True, secret_env=sources)}
    found, unread = _with_secrets(state, "sim", tmp_path)
    assert found == state and isinstance(unread[key], PdctlError) and "TEST_A" in unread[key].message
    monkeypatch.setenv("TEST_A", "one")
    (tmp_path / "b.txt").write_text("two\n")
    found, unread = _with_secrets(state, "sim", tmp_path)
    file = found[key]
    assert not unread and isinstance(file, File) and file.digest not in ("scrypt:old", "")


BROKEN = Generation(3, "broken", what="/var/lib/pdctl/sim/generations/3.json: it is empty", age_s=9.0)
TOLD = (BROKEN.what,)


def test_a_generation_that_a_host_cannot_read_any_more_is_broken_for_all_and_its_row_is_another_hosts() -> (
    None
):
    seen = Past(
        "sim",
        {
            "h1": Kept(generations=(made(1), made(2), BROKEN), broken=TOLD),
            "h2": Kept(generations=(made(3),)),
        },
        {},
    )
    row = history_document(seen)["generations"][0]
    assert (row["number"], row["state"], row["by"], row["what"]) == (3, "broken", "ann@desk", "create 3")
    assert row["hosts"] == {"h1": "broken", "h2": "complete"}
    assert target(seen, None) == 2  # whatever runs now, 2 ran before it
    with pytest.raises(ApplyError, match=r"generation 3 cannot be read: .*/3\.json: it is empty") as caught:
        target(seen, 3)
    assert caught.value.where == "h1" and caught.value.hint == "there are: 1, 2; see `pdctl history`"


def test_a_history_of_broken_ones_alone_is_shown() -> None:
    document = history_document(past(BROKEN, broken=TOLD))
    assert [(row["number"], row["state"]) for row in document["generations"]] == [(3, "broken")]
    assert document["broken"] == {"h1": [BROKEN.what]}
    console = Console(width=200, record=True, file=io.StringIO())
    show_history(document, console)
    assert "broken" in console.export_text()


def test_what_is_broken_is_told_with_its_host_and_what_to_do() -> None:
    seen = past(made(1), BROKEN, broken=TOLD)
    (line,) = broken_lines(seen.kept)
    assert line.startswith(f"h1: {BROKEN.what}; ") and "rm " in line
    assert next_number(seen.kept) == 4 and not unfinished(seen.kept)


def test_the_spec_comes_from_another_host_where_one_cannot_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def turn(_: Any, __: str, host: str, *___: Any, **____: Any) -> Said:
        if host == "h1":
            raise HostError("/store/x: it is damaged", where=host)
        return Said(spec="cluster: sim\n")

    monkeypatch.setattr(history, "turn", turn)
    both = {host: Kept(generations=(made(1),)) for host in ("h1", "h2")}
    assert spec_of(Sessions({}), Past("sim", both, {}), 1) == "cluster: sim\n"
    with pytest.raises(HostError, match="/store/x: it is damaged"):
        spec_of(Sessions({}), past(made(1)), 1)
