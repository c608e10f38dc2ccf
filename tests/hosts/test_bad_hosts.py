"""Hosts that cannot be finished: one clear error each, others done, nothing half-written, reruns converge."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.line import CONFIG, HOSTS, RECORD, SPEC, Line, Ran, changed, line_on_hosts, unit
from tests.hosts.plays import inside
from tests.labs import until

pytestmark = pytest.mark.hosts

KEYS = "/root/host-keys"
LEFT = r"-name '*.pdctl-new' -o -name '.pdctl-build' -o -name '*.new' -o -name '*.old'"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """Without the bundle in view, so that pdctl has to bring it."""
    with line_on_hosts(tmp_path_factory, bound=False) as line:
        line.apply()
        yield line


@pytest.fixture
def line(hosts: Line) -> Line:
    hosts.mend()
    return hosts


def leftovers(line: Line) -> str:
    """Files that were being written, and work that the record calls unfinished."""
    found = ""
    for host in HOSTS:  # the folders of systemd and apt hold our files too
        found += inside(line.lab, host, f"find /etc /opt/pdctl /var/lib/pdctl -xdev \\( {LEFT} \\)")
        found += inside(line.lab, host, f"grep -A3 '\"pending\": \\[$' {RECORD} || true")
    return found


def converges(line: Line) -> None:
    """The same command again finishes what is left, and leaves nothing on the way."""
    line.apply()
    assert line.diff()["empty"] and leftovers(line) == ""


def of_h2(line: Line, **ssh: Any) -> None:
    """A spec that reaches h2 in another way."""
    hosts = [SPEC["hosts"][0], SPEC["hosts"][1] | {"ssh": {"config": str(line.lab.ssh_config), **ssh}}]
    line.write({"hosts": hosts})


def forget_key(line: Line) -> None:
    known = line.folder / "known_hosts"
    rows = line.lab.paths.known_hosts.read_text().splitlines()
    known.write_text("".join(row + "\n" for row in rows if not row.startswith("h2")))
    of_h2(line, known_hosts=str(known))


def rekey(line: Line) -> None:
    inside(line.lab, "h2", f"mkdir -p {KEYS}; cp -a /etc/ssh/ssh_host_* {KEYS}")
    line.lab.rekey("h2")


def on_h2(script: str) -> Callable[[Line], None]:
    def run(line: Line) -> None:
        inside(line.lab, "h2", script)

    return run


@dataclass(frozen=True)
class Fault:
    """What is done to h2 or to the way there, what undoes it, and what the user reads."""

    cause: Callable[[Line], None]
    undo: Callable[[Line], None]
    error: str
    hint: str


FAULTS = {
    "cut off": Fault(
        lambda line: line.lab.cut("h2"),
        lambda line: line.lab.uncut("h2"),
        "h2: pdctl lab: connect to 198.18.0.11 port 22: timed out",
        "",
    ),
    "another key": Fault(
        rekey,
        on_h2(f"rm /etc/ssh/ssh_host_*; cp -a {KEYS}/* /etc/ssh; systemctl restart ssh"),
        "h2: its host key has changed: ",
        "another machine? if it was reinstalled: `ssh-keygen -f ",
    ),
    "unknown key": Fault(
        forget_key,
        lambda line: line.write(),
        "h2: its host key (ssh-ed25519 SHA256:",
        "compare its fingerprint, then",
    ),
    "no python3": Fault(
        on_h2("mv /usr/bin/python3 /usr/bin/python3.away"),
        on_h2("mv /usr/bin/python3.away /usr/bin/python3"),
        "h2: /usr/bin/python3 is missing",
        "on the host: apt-get install python3",
    ),
    "sudo asks for a password": Fault(
        lambda line: of_h2(line, user="opspw"),
        lambda line: line.write(),
        "h2: sudo asks opspw for a password",
        "as root on the host: echo 'opspw ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/pdctl",
    ),
    "unknown user": Fault(
        lambda line: of_h2(line, user="nobody-here"),
        lambda line: line.write(),
        "h2: nobody-here@198.18.0.11 accepts none of the keys offered",
        "",
    ),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_host_that_cannot_be_looked_at_is_named_and_the_other_is_finished(line: Line, what: str) -> None:
    fault, lives = FAULTS[what], line.lives()
    line.inside(f"chmod 600 {CONFIG}/proxy.json; systemctl stop {unit('decoder-1')}")
    try:
        fault.cause(line)
        ran = line.pdctl("apply", "--yes").must(1)
    finally:
        fault.undo(line)
    rows = ran.err.splitlines()
    at = rows.index("error: some hosts were left out")
    assert rows[at + 1].startswith(f"  {fault.error}"), ran.err
    assert rows[at + 2].startswith(f"      hint: {fault.hint}") or not fault.hint
    assert sum(fault.error in row for row in rows) == 1
    assert "h2 was left out" in ran.out and f"start {unit('decoder-1')}" in ran.err
    assert changed(lives, line.lives()) == {"decoder-1"}
    assert line.diff()["empty"]


def test_with_json_the_error_of_a_host_is_in_the_one_document(line: Line) -> None:
    line.lab.cut("h2")
    try:
        found = line.pdctl("diff", "--json").must(1).json
        done = line.pdctl("apply", "--yes", "--json", "--no-verify").must(1).json
    finally:
        line.lab.uncut("h2")
    assert "198.18.0.11 port 22" in found["unreachable"]["h2"]
    assert "198.18.0.11 port 22" in done["plan"]["unreachable"]["h2"]


def test_when_no_host_answers_there_is_one_error_and_no_plan(line: Line) -> None:
    for host in HOSTS:
        line.lab.cut(host)
    try:
        ran = line.pdctl("apply", "--yes").must(1)
    finally:
        for host in HOSTS:
            line.lab.uncut(host)
    assert ran.out == "" and ran.err.splitlines()[0] == "error: no host could be looked at"
    assert [row.split(":")[0] for row in ran.err.splitlines()[1:3]] == ["  h1", "  h2"]


# What breaks writing on h2 -> the words of the error.
FULL = {
    "disk full where configuration lies": (
        f"mount -t tmpfs -o size=4k,mode=750 tmpfs {CONFIG}",
        f"umount {CONFIG}",
        "was not written: No space left on device; what was there before is unchanged",
    ),
    "disk full where environments are built": (
        "rm -r /opt/pdctl/venvs/*; mount -t tmpfs -o size=8m,mode=755 tmpfs /opt/pdctl/venvs",
        "umount /opt/pdctl/venvs",
        "No space left on device",
    ),
    "disk full where the record lies": (
        f"rm {CONFIG}/decoder-0.env; mount -t tmpfs -o size=4k,mode=700 tmpfs $(dirname {RECORD}); "
        f"head -c 4096 /dev/zero > $(dirname {RECORD})/filler",
        f"umount $(dirname {RECORD})",
        f"{RECORD} was not written: No space left on device",
    ),
    "read-only configuration": (
        f"chmod 666 {CONFIG}/decoder-0.env; mount --bind /etc/pdctl /etc/pdctl; "
        "mount -o remount,ro,bind /etc/pdctl",
        "umount /etc/pdctl",
        "Read-only file system",
    ),
}


@pytest.mark.parametrize("what", FULL)
def test_a_host_that_cannot_be_written_is_named_and_the_other_is_finished(line: Line, what: str) -> None:
    cause, undo, words = FULL[what]
    line.inside(f"chmod 600 {CONFIG}/proxy.json")
    try:
        line.inside(cause, "h2")
        ran = line.pdctl("apply", "--yes").must(1)
    finally:
        line.inside(undo, "h2")
    error = ran.err[ran.err.index("error: ") :].splitlines()
    assert error[0] == "error: `line` was not brought to its spec on 1 host"
    assert error[1].startswith("  h2: ") and words in error[1], ran.err
    assert error[-1].startswith("hint: mend the cause and run `pdctl apply` again")
    assert line.inside(f"stat -c %a {CONFIG}/proxy.json").strip() == "640"
    converges(line)


def test_a_record_that_cannot_be_read_is_said_and_never_taken_for_none(line: Line) -> None:
    line.inside(f"cp {RECORD} /root/record; truncate -s 100 {RECORD}", "h2")
    try:
        for words in (("diff",), ("apply", "--yes")):
            ran = line.pdctl(*words).must(1)
            assert f"  h2: its record cannot be used: {RECORD}: " in ran.err, words
            assert "      hint: restore it from a backup" in ran.err
    finally:
        line.inside(f"cp /root/record {RECORD}", "h2")
    assert line.diff()["empty"]


def test_an_engine_that_never_serves_ends_apply_with_its_journal_before_later_roles(line: Line) -> None:
    lives = line.lives()
    line.write(
        decoders={"count": 2, "extra_args": ["--no-such-flag"]}, prefillers={"env": {"NCCL_DEBUG": "INFO"}}
    )
    ran = line.pdctl("apply", "--yes").must(1)
    rows = ran.err[ran.err.index("error: ") :].splitlines()
    assert rows[0] == "error: `line` was not brought to its spec on 2 hosts"
    at = rows.index(f"    {unit('decoder-1')}:")
    assert rows[at - 1].startswith(f"  h1: {unit('decoder-1')}: it ended")
    tail = [row for row in rows[at + 1 :] if row.startswith("      ")]
    assert any("unrecognized arguments: --no-such-flag" in row for row in tail), ran.err
    assert f"    {unit('decoder-0')}:" in rows and rows[-1].startswith("hint: ")
    assert "Start prefillers" not in ran.err
    assert not changed(lives, line.lives()) & {"prefiller-0", "proxy"}
    line.write(prefillers={"env": {"NCCL_DEBUG": "INFO"}})
    converges(line)
    assert "prefiller-0" in changed(lives, line.lives())


def wait_for(running: subprocess.Popen[str], line: Line, condition: Callable[[], bool]) -> None:
    def holds() -> bool:
        assert running.poll() is None, running.communicate()
        return condition()

    until(holds, timeout=60)


def builds(line: Line, host: str) -> bool:
    return line.lab.exec(host, ["sh", "-c", "ls -d /opt/pdctl/venvs/.pdctl-build"]).returncode == 0


def loads(line: Line, instance: str, host: str) -> bool:
    """Whether systemd has started an engine that does not serve yet."""
    return line.lab.exec(host, ["systemctl", "is-active", "-q", unit(instance)]).returncode == 0


def begun(line: Line, during: str) -> subprocess.Popen[str]:
    """An apply that is in the middle of something."""
    if during == "building environments":
        for host in HOSTS:
            line.inside("rm -r /opt/pdctl/venvs/*", host)
        running = line.start("apply", "--yes")
        wait_for(running, line, lambda: builds(line, "h1") and builds(line, "h2"))
        return running
    line.write({"engine": {"kind": "simulator", "simulator": {"start_s": 4}}})
    before = line.lives()
    running = line.start("apply", "--yes")
    wait_for(running, line, lambda: {"decoder-0", "decoder-1"} <= changed(before, line.lives()))
    return running


def ended(running: subprocess.Popen[str]) -> Ran:
    out, err = running.communicate(timeout=60)
    return Ran(running.returncode, out, err)


MOMENTS = ("building environments", "waiting for decoders")


@pytest.mark.parametrize("during", MOMENTS)
def test_after_ctrl_c_the_lock_is_free_and_the_next_apply_goes_on(line: Line, during: str) -> None:
    running = begun(line, during)
    running.send_signal(signal.SIGINT)
    ran = ended(running).must(130)
    assert ran.err.splitlines()[-1] == "interrupted; run the same command again to go on"
    assert "Traceback" not in ran.err
    assert children(line) == []
    converges(line)


@pytest.mark.parametrize("during", MOMENTS)
def test_after_a_kill_the_next_apply_goes_on(line: Line, during: str) -> None:
    running = begun(line, during)
    running.kill()
    ended(running)
    converges(line)
    until(lambda: children(line) == [], timeout=60)


def children(line: Line) -> list[str]:
    """Processes that pdctl has left behind: its private state folder is in their environment."""
    mark = f"XDG_STATE_HOME={line.state}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def test_a_second_apply_at_the_same_time_is_refused_and_told_of_the_first(line: Line) -> None:
    running = begun(line, "building environments")
    second = line.pdctl("apply", "--yes").must(1)
    first = ended(running).must()
    assert f"error: another pdctl works on `line`: process {running.pid}, `" in second.err
    assert (
        "apply --yes`" in second.err
        and f"hint: wait for it, or look at it: ps -fp {running.pid}" in second.err
    )
    assert first.status == 0 and line.diff()["empty"]


def test_a_host_lost_in_the_middle_is_named_and_the_next_apply_goes_on(line: Line) -> None:
    for host in HOSTS:
        line.inside("rm -r /opt/pdctl/venvs/*", host)
    running = line.start("apply", "--yes")
    try:
        wait_for(running, line, lambda: builds(line, "h2"))
        line.lab.cut("h2")
        begun_at = time.monotonic()
        ran = ended(running).must(1)
        assert time.monotonic() - begun_at < 60
    finally:
        line.lab.uncut("h2")
    error = ran.err[ran.err.index("error: ") :].splitlines()
    assert error[0] == "error: `line` was not brought to its spec on 1 host" and error[1].startswith("  h2: ")
    assert "create venv /opt/pdctl/venvs/proxy-" in ran.err
    converges(line)
