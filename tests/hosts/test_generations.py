"""Every apply is numbered on the hosts; the way back installs nothing; destroy leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hosts.line import HOSTS, Line, changed, line_on_hosts, soak
from tests.hosts.mended import converges
from tests.hosts.plays import snapshot
from tests.labs import inside

pytestmark = pytest.mark.hosts
FOLDER = "/var/lib/pdctl/line"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with line_on_hosts(tmp_path_factory) as line:
        line.apply("--no-verify")
        yield line


@pytest.fixture
def line(hosts: Line) -> Line:
    hosts.broken = True
    hosts.mend()
    return hosts


def seats(line: Line, value: str, **more: Any) -> None:
    """A spec in which the prefiller differs: the only one of its role, it restarts without being drained."""
    line.write(more, prefillers={"count": 1, "env": {"NCCL_DEBUG": value}})


def history(line: Line) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = line.pdctl("history", "--json").must().json["generations"]
    return rows


def newest(line: Line) -> dict[str, Any]:
    return history(line)[0]


def venvs(line: Line, host: str = "h1") -> dict[str, str]:
    """Environments of a host: another inode or time is another installation."""
    text = inside(line.lab, host, "cd /opt/pdctl/venvs && stat -c '%n %i %Y' *")
    return {words[0]: " ".join(words[1:]) for words in map(str.split, text.splitlines())}


def debug(line: Line) -> str:
    return inside(line.lab, "h1", "grep -h NCCL_DEBUG /etc/pdctl/line/prefiller-0.env || true")


def test_history_after_three_applies_and_the_way_back_installs_nothing(line: Line) -> None:
    first = newest(line)["number"]
    for value in ("INFO", "WARN"):
        seats(line, value)
        line.apply("--no-verify")
    rows = history(line)
    assert [row["number"] for row in rows[:3]] == [first + 2, first + 1, first]
    assert [row["state"] for row in rows[:3]] == ["complete"] * 3
    assert [row["number"] for row in rows if row["current"]] == [first + 2]
    assert "restart" in rows[0]["what"] and rows[0]["hosts"] == {"h1": "complete"}
    assert json.loads(line.pdctl("history", "--spec", str(first + 1)).must().out) == spec_with(line, "INFO")
    before, lives, text = venvs(line), line.lives(), (line.folder / "cluster.yaml").read_text()
    ran = line.pdctl("rollback", "--yes").must()
    assert venvs(line) == before
    assert changed(lives, line.lives()) == {"prefiller-0"} and "INFO" in debug(line)
    assert f"pdctl history --spec {first + 1}" in ran.err and "Served" in ran.err
    assert (line.folder / "cluster.yaml").read_text() == text
    row = newest(line)
    assert (row["restores"], row["state"], row["current"]) == (first + 1, "complete", True)
    assert not line.diff()["empty"]
    seats(line, "INFO")
    assert line.diff()["changes"] == []


def test_one_that_a_host_was_left_out_of_is_partial_until_all_have_come_along(line: Line) -> None:
    line.write(decoders={"count": 2, "env": {"NCCL_DEBUG": "INFO"}})
    line.lab.cut("h2")
    try:
        line.pdctl("apply", "--yes", "--no-verify").must(1)
    finally:
        line.lab.uncut("h2")
    row = newest(line)
    assert (row["state"], row["current"], row["hosts"]) == ("partial", False, {"h1": "partial"})
    ran = line.pdctl("rollback", str(row["number"]), "--yes").must(1)
    assert "was never reached in whole (partial)" in ran.err
    line.apply("--no-verify")
    row = newest(line)
    assert (row["state"], row["hosts"]) == ("complete", {"h1": "complete", "h2": "complete"})
    assert line.diff()["empty"]


def test_a_host_that_was_away_when_all_was_destroyed_brings_no_old_numbers_back(line: Line) -> None:
    line.lab.cut("h2")
    try:
        line.pdctl("destroy", "--yes").must(1)
        line.write(decoders={"count": 2, "env": {"NCCL_DEBUG": "INFO"}})
        line.pdctl("apply", "--yes", "--no-verify").must(1)
    finally:
        line.lab.uncut("h2")
    assert "h2 still keeps generations" in line.pdctl("diff").must().err
    assert [row["number"] for row in history(line)] == [1]
    line.apply("--no-verify")
    rows = history(line)
    assert [(row["number"], row["hosts"]) for row in rows] == [
        (2, {"h1": "complete", "h2": "complete"}),
        (1, {"h1": "partial"}),
    ]
    assert "still keeps" not in line.pdctl("diff").must().err and line.diff()["empty"]


def spec_with(line: Line, value: str) -> dict[str, Any]:
    spec = json.loads((line.folder / "cluster.yaml").read_text())
    spec["serving"]["prefillers"]["env"] = {"NCCL_DEBUG": value}
    return dict(spec)


def test_an_apply_with_nothing_to_do_makes_no_generation_and_takes_no_lock(line: Line) -> None:
    before = inside(line.lab, "h1", f"find {FOLDER} -printf '%p %T@\\n' | sort")
    number = newest(line)["number"]
    line.apply("--no-verify")
    assert newest(line)["number"] == number
    assert inside(line.lab, "h1", f"find {FOLDER} -printf '%p %T@\\n' | sort") == before


def test_a_change_of_one_host_has_its_part_alone_and_the_others_go_back_to_what_they_held(line: Line) -> None:
    start = newest(line)["number"]
    line.inside("echo drifted >> /etc/pdctl/line/decoder-0.env", "h2")
    line.apply("--no-verify")
    assert newest(line)["hosts"] == {"h2": "complete"}
    lives = line.lives()
    ran = line.pdctl("rollback", str(start), "--yes", "--no-verify").must()
    assert "\n  ✓ " not in ran.err and changed(lives, line.lives()) == set()


@soak
def test_a_host_that_held_nothing_then_holds_nothing_again(line: Line) -> None:
    line.write(decoders={"count": 1, "placement": ["h1"]})
    line.apply("--no-verify")
    without = newest(line)["number"]
    assert "decoder-0" in line.lives() and line.inside("ls /opt/pdctl/venvs", "h2").startswith("simulator-")
    line.write()
    line.apply("--no-verify")
    kept = venvs(line, "h2")
    line.pdctl("rollback", str(without), "--yes", "--no-verify").must()
    assert set(line.lives()) == {"prefiller-0", "decoder-0", "proxy"} and venvs(line, "h2") == kept
    assert line.inside("ls /etc/systemd/system/pdctl-* 2>/dev/null || true", "h2") == ""
    line.pdctl("rollback", "--yes", "--no-verify").must()
    assert len(line.lives()) == 4 and venvs(line, "h2") == kept


def test_an_environment_is_kept_while_a_generation_needs_it_and_then_goes(line: Line) -> None:
    """An old environment, as after an upgrade of the engine, by the hand of a generation that names it."""
    old = "/opt/pdctl/venvs/simulator-000000000000"
    planted(line, old)
    number = newest(line)["number"]
    assert line.diff()["empty"]
    line.write({"generations": {"keep": 2}})
    assert line.diff()["empty"]  # the newest two need it
    seats(line, "INFO", generations={"keep": 2})
    line.apply("--no-verify")
    assert old.rsplit("/", 1)[1] in venvs(line)  # it is the one before the present
    seats(line, "WARN", generations={"keep": 2})
    assert f"delete venv {old}" in line.apply("--no-verify").err
    assert old.rsplit("/", 1)[1] not in venvs(line) and line.diff()["empty"]
    kept = inside(line.lab, "h1", f"ls {FOLDER}/generations").split()
    assert kept == [f"{number + 1}.json", f"{number + 2}.json"]


def planted(line: Line, path: str) -> None:
    """An environment that the record and the newest generation name, and the spec does not."""
    script = f"""
import json, os
os.makedirs("{path}/bin")
open("{path}/bin/python", "w").close()
record = json.load(open("{FOLDER}/record.json"))
row = dict(kind="venv", path="{path}", digest="d", python="3.11", damage=["incomplete"], created=True)
record["resources"].append(row)
json.dump(record, open("{FOLDER}/record.json", "w"))
name = max(os.listdir("{FOLDER}/generations"), key=lambda name: int(name.split(".")[0]))
header = json.load(open("{FOLDER}/generations/" + name))
header["venvs"].append("{path}")
json.dump(header, open("{FOLDER}/generations/" + name, "w"))
"""
    done = line.lab.exec("h1", ["python3", "-c", script])
    assert done.returncode == 0, done.stderr
    line.broken = True


def test_a_missing_environment_is_said_and_nothing_is_changed(line: Line) -> None:
    seats(line, "INFO")
    line.apply("--no-verify")
    lives = line.lives()
    line.inside("rm -r /opt/pdctl/venvs/simulator-*", "h2")
    ran = line.pdctl("rollback", "--yes").must(1)
    assert "is gone" in ran.err and "pdctl history --spec" in ran.err
    assert changed(lives, line.lives()) == set()
    converges(line)


def test_a_full_disk_stops_an_apply_before_it_has_changed_anything(line: Line) -> None:
    """The other host has begun its part then, and forgets it."""
    number, kept = newest(line)["number"], files(line)
    line.write(decoders={"count": 2, "env": {"NCCL_DEBUG": "FULL"}})
    line.inside(f"mount -t tmpfs -o size=4k,nr_inodes=4 tmpfs {FOLDER}/store", "h2")
    try:
        ran = line.pdctl("apply", "--yes", "--no-verify").must(1)
    finally:
        line.inside(f"umount {FOLDER}/store", "h2")
    assert "error: h2: " in ran.err and "No space left on device" in ran.err
    assert files(line) == kept and newest(line)["number"] == number
    line.write()
    assert line.diff()["empty"]


def files(line: Line) -> dict[str, str]:
    """All that an apply of decoders could have touched, with times."""
    folders = f"{FOLDER} /etc/pdctl/line /etc/systemd/system"
    script = f"find {folders} -type f -printf '%p %T@\\n' | sort"
    return {host: inside(line.lab, host, script) for host in HOSTS}


def test_the_seconds_of_the_last_start_are_in_the_record(line: Line) -> None:
    record = json.loads(inside(line.lab, "h1", f"cat {FOLDER}/record.json"))
    assert set(record["timings"]) == {
        f"pdctl-line-{name}.service" for name in ("decoder-1", "prefiller-0", "proxy")
    }
    assert all(0 < seconds < 60 for seconds in record["timings"].values())


@soak
def test_no_file_of_a_secret_is_kept_and_what_cannot_be_read_is_left_alone(line: Line) -> None:
    secret = {"secrets": {"HF_TOKEN": {"from_env": "TEST_TOKEN"}}}
    line.write(secret)
    line.pdctl("apply", "--yes", "--no-verify", env={"TEST_TOKEN": "hf_first_value"}).must()
    before = newest(line)["number"]
    seats(line, "INFO", **secret)
    line.pdctl("apply", "--yes", "--no-verify", env={"TEST_TOKEN": "hf_first_value"}).must()
    assert inside(line.lab, "h1", f"grep -rl hf_first_value {FOLDER} || true") == ""
    line.pdctl("rollback", str(before), "--yes", "--no-verify").must()
    assert inside(line.lab, "h1", "cat /etc/pdctl/line/secrets.env") == 'HF_TOKEN="hf_first_value"'
    line.inside("echo edited >> /etc/pdctl/line/secrets.env", "h1")
    ran = line.pdctl("rollback", "--yes", "--no-verify").must(1)
    assert "TEST_TOKEN is not set" in ran.err
    other = {"TEST_TOKEN": "hf_second_value"}
    line.pdctl("rollback", str(before), "--yes", "--no-verify", env=other).must()
    assert "hf_second_value" in inside(line.lab, "h1", "cat /etc/pdctl/line/secrets.env")


def test_destroy_leaves_nothing_and_the_numbers_begin_anew(tmp_path_factory: pytest.TempPathFactory) -> None:
    with line_on_hosts(tmp_path_factory) as line:
        before = {host: snapshot(line.lab, host) for host in HOSTS}
        line.apply("--no-verify")
        seats(line, "INFO")
        line.apply("--no-verify")
        line.pdctl("rollback", "--yes", "--no-verify").must()
        line.pdctl("destroy", "--yes").must()
        assert {host: snapshot(line.lab, host) for host in HOSTS} == before
        assert history(line) == []
        line.inside(f"mkdir -p {FOLDER} && touch {FOLDER}/store", "h2")
        assert "h2: " in line.pdctl("apply", "--yes", "--no-verify").must(1).err
        line.inside(f"rm -r {FOLDER} && rmdir /var/lib/pdctl", "h2")
        assert {host: snapshot(line.lab, host) for host in HOSTS} == before
