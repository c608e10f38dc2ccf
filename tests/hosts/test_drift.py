"""Everything that can change behind pdctl's back: told by diff, repaired by apply, nothing else restarted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from tests.hosts.drifts import AGAIN, CASES, D0, D1
from tests.hosts.line import CONFIG, Line, changed, line_on_hosts, soak

pytestmark = pytest.mark.hosts


@dataclass
class Table:
    """What the cases showed, printed at the end (`pytest -s`)."""

    rows: list[tuple[str, str, str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        heads = ("changed outside pdctl", "diff says", "apply did", "restarted by apply")
        lines = [heads, tuple("---" for _ in heads), *self.rows]
        return "\n".join("| " + " | ".join(row) + " |" for row in lines)


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    found = Table()
    yield found
    print(f"\n{found}\n")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with line_on_hosts(tmp_path_factory) as line:
        yield line


@pytest.fixture
def line(hosts: Line) -> Line:
    """Both hosts are as SPEC says when the test begins, and are remembered so."""
    hosts.mend()
    return hosts


# Those that every change is tested with; the others need `make soak`.
FIRST = (
    "edited configuration file",
    "edited configuration file, engine restarted with it",
    "file deleted inside a venv",
    "stopped unit",
    "killed decoder",
    "killed prefiller",
    "unit that failed for good",
    "Python replaced under all that runs",
    "environment changed by a drop-in",
    "masked unit",
    "unit file of another mode",
    "unit file edited, not loaded",
    "unit file edited, engine restarted with it",
    "service user given a shell",
)


@pytest.mark.parametrize(
    "what", [what if what in FIRST else pytest.param(what, marks=soak) for what in CASES]
)
def test_drift_is_told_and_repaired_and_nothing_else_restarts(line: Line, table: Table, what: str) -> None:
    case = CASES[what]
    sound = line.lives()
    line.inside(case.script, case.host)
    hurt = line.lives()
    assert changed(sound, hurt) == case.hit
    done = line.apply("--no-verify", "--json").json
    plan = done["plan"]
    told = {row["id"]: "; ".join(row["what"]) for row in plan["drift"]}
    assert_told(told, case.told)
    assert {row["host"] for row in plan["drift"]} == {case.host}
    assert all(change["drift"] for change in plan["changes"])
    gone = [entry for entry in done["did"].get(case.host, ()) if entry.startswith("remove drop-in ")]
    assert gone == [why for change in plan["changes"] for why in change["why"] if why.startswith("remove ")]
    assert bool(gone) == ("drop-in" in what)
    announced = {row["instance"] for row in plan["restarts"]} | (sound.keys() - hurt.keys())
    assert announced == case.again
    repaired = line.lives()
    assert changed(hurt, repaired) == case.again
    assert repaired.keys() == sound.keys()
    assert line.diff()["empty"]
    others = {host for host, entries in done["did"].items() if entries} - {case.host}
    assert others == set()
    table.rows.append(
        (
            what,
            "<br>".join(
                f"{name.split(':', 1)[1].rsplit('/', 1)[-1]}: {words}" for name, words in told.items()
            ),
            "<br>".join(done["did"].get(case.host, ())) or "learned it",
            ", ".join(sorted(changed(hurt, repaired))) or "nothing",
        )
    )


def assert_told(told: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Each wanted resource is told with its words, and no other is; `venv:*` stands for the one venv."""
    names = {("venv:*" if name.startswith("venv:") else name): words for name, words in told.items()}
    assert names.keys() == wanted.keys(), told
    for name, words in wanted.items():
        assert words in names[name], told


def test_variables_that_the_administrator_gives_to_all_services_are_the_hosts_own(line: Line) -> None:
    """No unit could refuse them. Once they are taken back, a process that has them is stale."""
    line.inside(f"systemctl set-environment NCCL_DEBUG=INFO; systemctl restart {D1}")
    assert [row["what"] for row in line.diff()["drift"]] == [[AGAIN]]
    line.apply("--no-verify")
    lives = line.lives()
    assert line.diff()["empty"]
    line.inside("systemctl unset-environment NCCL_DEBUG")
    assert [row["what"] for row in line.diff()["drift"]] == [["environment: NCCL_DEBUG added"]]
    line.apply("--no-verify")
    assert changed(lives, line.lives()) == {"decoder-1"} and line.diff()["empty"]


def test_drift_is_shown_apart_from_changes_on_the_screen(line: Line) -> None:
    line.inside(f"echo '# by hand' >> {CONFIG}/proxy.json")
    shown = line.pdctl("diff").must().out
    drift, changes = shown.split("\n\n")[:2]
    name = f"file {CONFIG}/proxy.json"
    assert drift == f"Changed outside pdctl since the last apply:\n  ! h1  {name}  content"
    assert changes.startswith(f"Changes:\n  h1\n    proxy\n      ~ {name}  content; drift\n")
    assert "-# by hand" in changes


def test_a_replaced_program_is_a_restart_that_is_pending_on_the_screen(line: Line) -> None:
    line.inside(CASES["Python replaced under all that runs"].script)
    shown = line.pdctl("diff", "--drift-only", "--exit-code").must(2).out
    assert re.search(
        rf"^  ! h1  unit {D1}  runs with a replaced \S+/python3.11: restart pending$", shown, re.M
    )
    assert "Also seen" not in shown
    plan = line.pdctl("diff").must().out
    causes = r"decoder-1 on h1  .*because runs with a replaced \S+/python3.11: restart pending"
    assert re.search(causes, plan) and "Drain decoder-1" in plan


def test_status_counts_drift_and_names_what_does_not_run(line: Line) -> None:
    line.inside(f"systemctl stop {D0}", "h2")
    status = line.pdctl("status", "--json").must(1).json
    assert not status["healthy"] and [row["id"] for row in status["drift"]] == [f"unit:{D0}"]
    rows = {row["instance"]: row for row in status["instances"]}
    assert rows["decoder-0"]["unit"] == "inactive" and not rows["decoder-0"]["healthy"]
    assert rows["decoder-1"]["healthy"]


def test_several_hosts_and_kinds_drift_at_once_and_one_apply_repairs_all(line: Line) -> None:
    sound = line.lives()
    line.inside(f"systemctl stop {D1}; chmod 600 {CONFIG}/proxy.json; rm {CONFIG}/prefiller-0.env")
    line.inside(f"rm -r {CONFIG}; systemctl disable -q {D0}", "h2")
    assert {row["host"] for row in line.diff()["drift"]} == {"h1", "h2"}
    line.apply()
    assert changed(sound, line.lives()) == {"decoder-1"}
    assert line.diff()["empty"]
