"""The probe: one answer or one clear error per host, checked at the edge, all hosts at once."""

from __future__ import annotations

import copy
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pdctl.errors import HostError, PdctlError, UnreachableError
from pdctl.hosts.answer import Answer, parse_answer
from pdctl.hosts.complaints import complaint
from pdctl.hosts.local import LocalSession
from pdctl.hosts.observation import Gpu
from pdctl.hosts.parallel import on_each
from pdctl.hosts.probe import ask, observation, probe, request
from pdctl.hosts.reach import Reach
from pdctl.hosts.session import Result, open_session
from pdctl.hosts.sessions import Sessions
from pdctl.spec.model import Cluster
from pdctl.state import Directory, File, Key, Package, Unit, User, Venv, key_of
from pdctl.state.codec import resource_to_json

HERE = Reach("h1", "h1", connection="local", become=False)
GPU = {
    "index": 0,
    "uuid": "GPU-1",
    "name": "NVIDIA H100 80GB HBM3",
    "memory_total": 81559,
    "memory_used": None,
    "driver_version": "580.95.05",
    "pci_bus_id": "00000000:18:00.0",
    "mig_mode_current": "Disabled",
}
FACTS = {
    "hostname": "h1",
    "python": "3.10.12",
    "kernel": "6.8.0",
    "arch": "x86_64",
    "os_id": "ubuntu",
    "os_version": "22.04",
    "systemd": "249",
    "boot_id": "b",
    "time_s": 1.5,
    "root": True,
    "cpus": 192,
    "memory_bytes": 2**41,
    "disk_free": {"/opt": 1},
    "gpus": [GPU],
}
RESOURCES = [
    User("pdctl", "/opt/pdctl"),
    Directory("/etc/pdctl", mode="0750"),
    File("/etc/pdctl/chat/a.env", "scrypt:00", mode="0600", secret=True),
    Package("libnuma1", "2.0.14-3ubuntu2", hold=True),
    Venv("/opt/pdctl/venvs/engine-1", "sha256:1", "3.12", damage=("a.py changed",)),
    Unit(
        "pdctl-chat-decoder-0.service", active="failed", deviations=("needs daemon-reload",), invocation="i"
    ),
]


def answer(**changes: Any) -> dict[str, Any]:
    rows = [resource_to_json(resource) for resource in RESOURCES]
    record = {
        "version": 1,
        "cluster": "chat",
        "applied_at": "2026-01-02T03:04:05+00:00",
        "by": "me@here",
        "pdctl": "0.1.0",
        "spec_digest": "d",
        "resources": [{**row, "created": row["kind"] != "package"} for row in rows],
        "pending": [{"id": "file:/x", "created": True, "secret": False}],
        "extras": [],
    }
    whole = {
        "resources": rows,
        "record": record,
        "contents": {"/etc/x": "aGk="},
        "bundle": {"wheels/a.whl": 7},
        "facts": FACTS,
        "errors": [],
    }
    return copy.deepcopy(whole) | changes


def test_an_answer_becomes_the_same_resources_that_were_sent() -> None:
    seen = observation({"h1": parse_answer("h1", answer())}, {})
    assert seen.state == {key_of("h1", resource): resource for resource in RESOURCES}
    assert seen.recorded == seen.state
    assert seen.contents == {Key("h1", "file:/etc/x"): b"hi"}
    assert seen.bundle == {"h1": {"wheels/a.whl": 7}}
    assert seen.facts["h1"].gpus == (Gpu(**GPU),)
    unit = seen.state[Key("h1", "unit:pdctl-chat-decoder-0.service")]
    assert isinstance(unit, Unit) and unit.invocation == "i"


def test_the_record_says_who_made_what_and_what_was_interrupted() -> None:
    meta = observation({"h1": parse_answer("h1", answer())}, {}).records["h1"]
    assert (meta.by, meta.spec_digest, meta.pending) == ("me@here", "d", {"file:/x": True})
    assert [name for name, created in meta.created.items() if not created] == ["package:libnuma1"]


def test_a_host_without_a_record_has_none() -> None:
    seen = observation({"h1": parse_answer("h1", answer(record=None, notes=["nvidia-smi: no driver"]))}, {})
    assert (seen.recorded, seen.records) == ({}, {})
    assert seen.notices == {"h1": ("nvidia-smi: no driver",)}


def test_a_record_of_a_newer_pdctl_asks_for_an_upgrade() -> None:
    with pytest.raises(HostError, match="written by a newer pdctl") as caught:
        parse_answer("h1", answer(record={"version": 2, "resources": [], "something": "else"}))
    assert (caught.value.where, caught.value.hint) == ("h1", "upgrade pdctl here")


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"resources": [{"kind": "volume", "name": "x"}]}, "resources.0"),
        ({"resources": [{"kind": "directory", "path": "/x", "mode": 755}]}, "resources.0.directory.mode"),
        ({"resources": "none"}, "resources"),
        ({"facts": {**FACTS, "cpus": "many"}}, "facts.cpus"),
        ({"contents": {"/x": "*"}}, "contents./x"),
    ],
)
def test_a_wrong_answer_is_refused_at_its_place(changes: dict[str, Any], place: str) -> None:
    with pytest.raises(HostError, match=f"the probe's answer is wrong at {place}: ") as caught:
        parse_answer("h1", answer(**changes))
    assert caught.value.where == "h1"


def test_a_thousand_resources_are_checked_in_no_time() -> None:
    rows = [resource_to_json(File(f"/etc/pdctl/chat/{n}", f"sha256:{n}")) for n in range(1000)]
    parse_answer("h1", answer())
    started = time.process_time()
    parse_answer("h1", answer(resources=rows))
    assert time.process_time() - started < 2


def test_this_machine_is_probed_without_ssh(tmp_path: Path) -> None:
    cluster = Cluster.model_validate(
        {
            "cluster": "probe-test",
            "ssh": {"connection": "local", "become": False},
            "hosts": [{"name": "here"}],
            "model": {"id": "pdctl/tiny"},
            "serving": {},
        }
    )
    (tmp_path / "f").write_text("mine\n")
    mine = File(str(tmp_path / "f"), "sha256:0", content=b"wanted")
    done: list[tuple[str, PdctlError | None]] = []
    seen = probe(cluster, {key_of("here", mine): mine}, tmp_path, progress=lambda *one: done.append(one))
    assert seen.contents == {key_of("here", mine): b"mine\n"}
    assert done == [("here", None)]
    assert seen.failures == {}


def test_hosts_are_worked_on_at_once_and_one_error_stops_no_other() -> None:
    both = threading.Barrier(2, timeout=10)

    def work(name: str) -> str:
        both.wait()
        if name == "bad":
            raise UnreachableError("gone", where=name)
        return name.upper()

    outcomes = dict(on_each({"good": "good", "bad": "bad"}, work))
    assert outcomes["good"] == "GOOD"
    assert isinstance(outcomes["bad"], UnreachableError)


def test_no_more_than_the_limit_are_worked_on_at_once() -> None:
    busy, most, lock, four = 0, 0, threading.Lock(), threading.Barrier(4, timeout=10)

    def work(number: int) -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        four.wait()
        with lock:
            busy -= 1

    assert len(list(on_each({str(n): n for n in range(40)}, work, at_once=4))) == 40
    assert most == 4


def test_a_mistake_of_ours_is_not_taken_for_an_error_of_a_host() -> None:
    with pytest.raises(ZeroDivisionError):
        list(on_each({"h1": 0}, lambda number: 1 // number))


# What sudo 1.9.13, bash 5.2 and dash 0.5.12 of Debian 12 print.
SAID = [
    ("sudo: a password is required", 1, "sudo asks ops for a password", "NOPASSWD"),
    ("sudo: a terminal is required to read the password; either use...", 1, "sudo asks ops", "NOPASSWD"),
    ("ops is not in the sudoers file.", 1, "ops may not use sudo", "NOPASSWD"),
    ("sudo: /usr/bin/python3: command not found", 1, "/usr/bin/python3 is missing", "install python3"),
    ("bash: line 1: /usr/bin/python3: No such file or directory", 127, "is missing", "install python3"),
    ("sh: 1: /usr/bin/python3: not found", 127, "/usr/bin/python3 is missing", "install python3"),
    ("env: 'sudo': No such file or directory", 127, "sudo is missing", "install sudo"),
    ("sudo: unable to write: No space left on device", 1, "its disk is full", "df -h"),
    ("bash: /usr/bin/python3: Permission denied", 126, "cannot run /usr/bin/python3", "install python3"),
]


@pytest.mark.parametrize(("text", "rc", "message", "hint"), SAID)
def test_what_a_host_says_becomes_advice(text: str, rc: int, message: str, hint: str) -> None:
    error = complaint(HERE, "ops", Result(rc, b"", f"{text}\n".encode()))
    assert error is not None
    assert message in error.message
    assert hint in str(error.hint)


def test_a_program_that_ran_is_not_complained_about() -> None:
    assert complaint(HERE, "ops", Result(0, b"", b"sudo: unable to resolve host h1\n")) is None
    assert complaint(HERE, "ops", Result(1, b"", b"Traceback ...\nValueError: x\n")) is None


def test_a_local_session_behaves_like_one_over_ssh() -> None:
    with open_session(HERE) as session:
        assert isinstance(session, LocalSession)
        assert session.run(b"print(6 * 7)").out == b"42\n"
        assert session.run(b"", ["no-such-program"]).rc == 127
        assert session.forward("127.0.0.1", 9) == ("127.0.0.1", 9)
        assert "".join(session.stream(["echo", "hello"])) == "hello\n"
        with pytest.raises(HostError, match="has not ended after"):
            session.run(b"", ["sleep", "30"], timeout=0.2)


def test_a_local_stream_ends_its_program_when_it_is_let_go() -> None:
    with open_session(HERE) as session:
        stream = session.stream(["sh", "-c", "echo $$; exec sleep 30"])
        process = Path("/proc", next(stream).strip())
        assert process.exists()
        stream.close()  # type: ignore[attr-defined]
        assert not process.exists()


def ask_here(asked: dict[str, Any]) -> Answer:
    return ask(Sessions({HERE.name: HERE}), HERE.name, asked, 30)


@pytest.mark.parametrize("text", ['{"version": 1, "resour', "\xff"])
def test_a_record_that_cannot_be_read_is_an_error_and_not_the_lack_of_one(tmp_path: Path, text: str) -> None:
    record = tmp_path / "record.json"
    asked = {**request("chat", []), "record": str(record)}
    assert ask_here(asked).record is None
    record.write_bytes(text.encode("latin-1"))
    with pytest.raises(HostError, match=r"h1: its record cannot be used: .*record\.json: ") as caught:
        ask_here(asked)
    assert caught.value.hint


def looping(folder: Path) -> list[dict[str, Any]]:
    """A directory whose path cannot be followed, for root neither, and a file beside it."""
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "f").write_text("mine")
    wanted = [Directory(str(folder / "loop")), File(str(folder / "f"), "sha256:0")]
    return [resource_to_json(resource, full=True) for resource in wanted]


def test_a_resource_that_cannot_be_read_is_an_error_and_not_the_lack_of_it(tmp_path: Path) -> None:
    with pytest.raises(HostError) as caught:
        ask_here(request("chat", looping(tmp_path)))
    line = f"directory:{tmp_path}/loop: Too many levels of symbolic links ({tmp_path}/loop)"
    assert str(caught.value) == f"h1: it cannot be observed, so nothing is planned there: {line}"
    assert caught.value.hint


def test_a_host_that_cannot_be_observed_is_left_out_and_reported(tmp_path: Path) -> None:
    looping(tmp_path)
    spec = {
        "cluster": "probe-test",
        "ssh": {"connection": "local", "become": False},
        "hosts": [{"name": "here"}],
        "model": {"id": "pdctl/tiny"},
        "serving": {},
    }
    many = {key_of("here", d): d for d in (Directory(f"{tmp_path}/loop/{n}") for n in range(7))}
    seen = probe(Cluster.model_validate(spec), many, tmp_path)
    assert (seen.state, seen.facts) == ({}, {})
    assert "; and 2 more" in seen.failures["here"].message


def test_what_no_plan_needs_is_a_notice_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'; exit 18\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    got = ask_here(request("chat", []))
    assert got.notes == ["nvidia-smi: Failed to initialize NVML: Driver/library version mismatch"]
    assert got.facts.gpus == ()
