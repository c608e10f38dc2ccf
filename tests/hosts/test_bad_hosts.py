"""Hosts that cannot be finished: one clear error each, others done, nothing half-written, reruns converge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.hosts.line import CONFIG, HOSTS, RECORD, SPEC, UNITS, Line, changed, soak, unit
from tests.hosts.mended import converges
from tests.hosts.plays import inside

pytestmark = pytest.mark.hosts

KEYS = "/root/host-keys"


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
    "a key that is not there": Fault(
        lambda line: of_h2(line, key="no-such-key"),
        lambda line: line.write(),
        "h2: `ssh.key` cannot be used: ",
        "name the private key",
    ),
    "no root without sudo": Fault(
        lambda line: of_h2(line, become=False),
        lambda line: line.write(),
        f"h2: ops is not root there and may not read all of what pdctl keeps: {RECORD}",
        "set `become: true` in its ssh section",
    ),
    "a link in place of the configuration": Fault(
        on_h2(f"mv {CONFIG} {CONFIG}-real; ln -s {CONFIG}-real {CONFIG}"),
        on_h2(f"rm {CONFIG}; mv {CONFIG}-real {CONFIG}"),
        f"h2: it cannot be observed, so nothing is planned there: directory:{CONFIG}: it is a link to",
        "look at that on the host",
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


def test_a_host_outside_the_targets_that_does_not_answer_is_no_error_of_them(line: Line) -> None:
    """Nothing to do, then something; a host that was asked for is one."""
    left_out = "warning: h2 was not looked at, outside the targets"
    line.lab.cut("h2")
    try:
        nothing = line.pdctl("apply", "--yes", "--host", "h1").must()
        line.inside(f"chmod 600 {CONFIG}/proxy.json")
        looked = line.pdctl("diff", "--host", "h1", "--exit-code").must(2)
        done = line.pdctl("apply", "--yes", "--host", "h1").must()
        asked = line.pdctl("apply", "--yes", "--role", "decoder").must(1)
    finally:
        line.lab.uncut("h2")
    assert "Nothing to do" in nothing.out and "h2 was left out: " in nothing.out
    for ran in (nothing, done):
        assert f"{left_out}; nothing was proven\n" in ran.err and "error: " not in ran.err
    assert f"{left_out}\n" in looked.err
    assert "error: some hosts were left out" in asked.err
    assert line.diff()["empty"]


def test_with_json_the_error_of_a_host_is_in_the_one_document(line: Line) -> None:
    of_h2(line, user="nobody-here")
    for words in (("diff",), ("apply", "--yes", "--no-verify")):
        found = line.pdctl(*words, "--json").must(1).json
        assert "accepts none of the keys" in found.get("plan", found)["unreachable"]["h2"], words


def test_with_json_what_was_done_and_what_failed_are_in_one_document(line: Line) -> None:
    line.inside(f"chmod 600 {CONFIG}/proxy.json")
    cause, undo, words = FULL["disk full where configuration lies"]
    try:
        line.inside(cause, "h2")
        ran = line.pdctl("apply", "--yes", "--json").must(1)
    finally:
        line.inside(undo, "h2")
    found = ran.json
    assert (found["format"], found["plan"]["cluster"]) == ("pdctl-apply/1", "line")
    assert found["did"]["h1"] == [f"update file {CONFIG}/proxy.json: mode 0600 -> 0640"]
    assert found["error"] == "`line` was not brought to its spec on 1 host" and found["proof"] is None
    (error,) = found["errors"]
    assert error["where"] == "h2" and words in error["error"]
    converges(line)


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
    "disk full where the bundle lies": (
        "rm -r /opt/pdctl/venvs/* /opt/pdctl/bundle/*; mount -t tmpfs -o size=1m tmpfs /opt/pdctl/bundle",
        "umount /opt/pdctl/bundle",
        "was not written: No space left on device",
    ),
    "disk full where the bundle is sent to": (
        "rm -r /opt/pdctl/venvs/* /opt/pdctl/bundle/*; mount -t tmpfs -o size=1m,mode=1777 tmpfs /var/tmp",
        "umount /var/tmp",
        "No space left on device",
    ),
    "read-only /etc": (
        f"chmod 666 {CONFIG}/decoder-0.env; rm {UNITS}/{unit('decoder-0')}; "
        "mount --bind /etc /etc; mount -o remount,ro,bind /etc",
        "umount /etc",
        "Read-only file system",
    ),
}


@pytest.mark.parametrize("what", [pytest.param(w, marks=soak) if "record" in w else w for w in FULL])
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
    assert "mend the cause and run `pdctl apply` again" in error[-1]
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
