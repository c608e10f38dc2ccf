"""One operator at a time: two at once, from this machine or another; locks that were left; unlock."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.line import HOSTS, Line, Ran, line_on_hosts, soak
from tests.hosts.mended import converges
from tests.labs import inside, until

pytestmark = pytest.mark.hosts
FOLDER = "/var/lib/pdctl/line"
OTHER_MACHINE = "0123456789abcdef0123456789abcdef\n"
SLOW = {"engine": {"kind": "simulator", "simulator": {"start_s": 4}}}
number = itertools.count()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """One decoder, which stays as it is."""
    with line_on_hosts(tmp_path_factory) as line:
        change(line)
        line.apply("--no-verify")
        yield line


@pytest.fixture
def line(hosts: Line) -> Line:
    hosts.apply("--no-verify")
    return hosts


def change(line: Line) -> None:
    """A spec whose apply restarts the prefiller, which then takes a while."""
    env = {"TEST_NUMBER": str(next(number))}
    line.write(SLOW, prefillers={"count": 1, "env": env}, decoders={"count": 1})


def owner(line: Line, host: str = "h1") -> dict[str, Any]:
    text = inside(line.lab, host, f"cat {FOLDER}/lock/owner.json 2>/dev/null || true")
    return json.loads(text) if text else {}


def begun(line: Line) -> subprocess.Popen[str]:
    """An apply that holds the lock of both hosts and is at work."""
    change(line)
    running = line.start("apply", "--yes", "--no-verify")
    until(lambda: running.poll() is None and owner(line) and owner(line, "h2") and at_work(line), timeout=60)
    return running


def at_work(line: Line) -> str:
    return inside(line.lab, "h1", f"tail -n1 {FOLDER}/journal.jsonl | grep -F '\"begin\"' || true")


def elsewhere(line: Line, tmp_path: Path, *words: str) -> Ran:
    """pdctl on another machine: another machine id, and none of this one's files of state."""
    (tmp_path / "machine-id").write_text(OTHER_MACHINE)
    script = 'mount --bind "$0" /etc/machine-id && exec "$@"'
    pdctl = Path(sys.executable).with_name("pdctl")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, tmp_path / "machine-id", pdctl, *words],
        cwd=line.folder,
        env={**line.environment, "XDG_STATE_HOME": str(tmp_path / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def finished(running: subprocess.Popen[str]) -> Ran:
    out, err = running.communicate(timeout=120)
    return Ran(running.returncode, out, err)


def unlocked(line: Line) -> bool:
    return not any(owner(line, host) for host in HOSTS)


def test_of_two_operators_on_two_machines_the_second_is_refused_and_told_of_the_first(
    line: Line, tmp_path: Path
) -> None:
    running = begun(line)
    running.send_signal(signal.SIGSTOP)  # for as long as the others take
    second = elsewhere(line, tmp_path, "apply", "--yes", "--no-verify")
    looked = elsewhere(line, tmp_path, "diff")
    running.send_signal(signal.SIGCONT)
    first = finished(running).must()
    assert second.status == 1
    words = r"error: h1: \S+@\S+ works on `line`: `pdctl apply --yes --no-verify`, since \d+ s"
    assert (
        re.search(words, second.err)
        and "hint: wait for it; if it is certainly gone: pdctl unlock" in second.err
    )
    assert looked.status == 0 and re.search(r"warning: h1, h2: \S+ has held the lock for \d+ s", looked.err)
    assert "cut off" not in looked.err
    assert first.status == 0 and unlocked(line) and line.diff()["empty"]


def test_after_a_kill_the_lock_is_stale_here_and_taken_over_with_a_word(line: Line, tmp_path: Path) -> None:
    running = begun(line)
    running.kill()
    finished(running)
    assert owner(line)["pid"] == running.pid
    there = elsewhere(line, tmp_path, "apply", "--yes", "--no-verify").must(1)
    assert "pdctl unlock" in there.err and "stale" not in there.err
    asked = elsewhere(line, tmp_path, "unlock").must(1)
    assert "nobody can be asked" in asked.err and owner(line) and owner(line, "h2")
    diff = line.pdctl("diff").must()
    assert f"it is stale: its process {running.pid} on this machine has ended" in diff.err
    assert re.search(r'generation \d+ \(\S+, \d+ s ago\) was cut off (in|after) step "[^"]+"', diff.err)
    ran = line.apply("--no-verify")
    assert f"stale, taken over: its process {running.pid} on this machine has ended" in ran.err
    assert unlocked(line)
    states = [row["state"] for row in line.pdctl("history", "--json").must().json["generations"][:2]]
    assert states == ["complete", "cut off"]
    converges(line)


def test_a_lock_whose_holder_is_at_work_on_this_machine_is_not_removed_unawares(line: Line) -> None:
    running = begun(line)
    asked = line.pdctl("unlock").must(1)
    first = finished(running).must()
    careful = f"careful: its process {running.pid} still runs on this machine: `"
    assert careful in asked.err and "apply --yes --no-verify`\n" in asked.err
    assert asked.err.index(careful) < asked.err.index("nobody can be asked")
    assert first.status == 0 and unlocked(line)


def test_another_cluster_at_work_on_a_host_is_named_and_waited_for_only_where_something_is_to_do(
    line: Line,
) -> None:
    there = json.dumps({"by": "bob@desk", "command": "pdctl apply --yes", "token": "t"})
    lock, seconds = "/var/lib/pdctl/other/lock", 12
    line.inside(f"mkdir -p {lock}; echo '{there}' > {lock}/owner.json")
    line.inside(f"systemd-run -q --unit other flock -x /var/lib sleep {seconds}")
    try:
        nothing = line.pdctl("apply", "--yes", "--no-verify").must()
        assert line.inside("systemctl is-active other").strip() == "active"
        change(line)
        ran = line.apply("--no-verify")
    finally:
        line.inside("systemctl stop other; rm -r /var/lib/pdctl/other")
    assert "Nothing to do" in nothing.out and "other" not in nothing.err
    words = (
        r"^h1: `other` is being changed there by bob@desk \(`pdctl apply --yes`, for \d+ s\); waiting for it"
    )
    assert re.search(words, ran.err, re.MULTILINE), ran.err
    assert line.diff()["empty"]


POLITE = (signal.SIGINT, *(pytest.param(each, marks=soak) for each in (signal.SIGTERM, signal.SIGHUP)))


@pytest.mark.parametrize("polite", POLITE)
def test_after_a_polite_end_the_lock_is_free_and_the_history_says_so(
    line: Line, polite: signal.Signals
) -> None:
    running = begun(line)
    running.send_signal(polite)
    finished(running).must(130)
    assert unlocked(line)
    assert line.pdctl("history", "--json").must().json["generations"][0]["state"] == "interrupted"
    assert "was interrupted" in line.pdctl("diff").must().err
    converges(line)


def test_workers_of_a_killed_apply_whose_lock_was_taken_over_change_nothing(
    line: Line, tmp_path: Path
) -> None:
    """Its lock is another's: each module call looks before it works."""
    running = begun(line)
    thief = json.dumps({"by": "bob@desk", "command": "pdctl apply", "token": "t"})
    for host in HOSTS:
        line.inside(f"echo '{thief}' > {FOLDER}/lock/owner.json", host)
    ran = finished(running)
    assert ran.status == 0 or "this apply has lost its lock on this host: bob@desk has it" in ran.err
    assert "lock was bob@desk's at the end" in ran.err
    unlock = elsewhere(line, tmp_path, "unlock", "--yes").must()
    assert re.search(r"h1, h2: bob@desk has held the lock for \d+ s \(`pdctl apply`\)", unlock.err)
    assert unlock.out == "unlocked: h1, h2\n" and unlocked(line)
    assert line.pdctl("unlock").must().out == "nobody holds the lock of `line`\n"


def test_hosts_that_changed_since_the_plan_was_made_are_left_alone(line: Line, tmp_path: Path) -> None:
    """Somebody applies while the first still asks whether it shall."""
    change(line)
    pid, terminal = os.forkpty()
    if pid == 0:
        os.chdir(line.folder)
        os.environ.update(line.environment)
        pdctl = str(Path(sys.executable).with_name("pdctl"))
        os.execv(pdctl, [pdctl, "apply", "--no-verify"])
    said = b""
    while b"Apply this plan?" not in said:
        said += os.read(terminal, 4096)
    elsewhere(line, tmp_path, "apply", "--yes", "--no-verify").must()
    os.write(terminal, b"y\n")
    try:
        while data := os.read(terminal, 4096):
            said += data
    except OSError:  # the terminal is gone with its last process
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert b"the hosts have changed since the plan was made; nothing was changed by this one" in said
    assert unlocked(line) and line.diff()["empty"]


def test_a_lock_that_could_not_be_given_back_is_said_and_taken_over_by_the_next_apply(line: Line) -> None:
    running = begun(line)
    line.lab.cut("h2")
    try:
        running.send_signal(signal.SIGINT)
        ran = finished(running).must(130)
    finally:
        line.lab.uncut("h2")
    assert "h2: the lock could not be given back" in ran.err
    assert not owner(line) and owner(line, "h2")
    assert "taken over" in line.apply("--no-verify").err
    assert unlocked(line)
