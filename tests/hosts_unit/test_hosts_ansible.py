"""Ansible runs on this machine: events, results, failures, secrets, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pdctl.errors import ApplyError
from pdctl.hosts.ansible import Event, Outcome, check_version, environment, run_playbook
from pdctl.hosts.ansible_events import event_of
from pdctl.hosts.ansible_vars import ansible_host_vars
from pdctl.hosts.control_path import fits
from pdctl.hosts.reach import Reach
from tests.hosts_unit.sshd import free_port

MODULE = """#!/usr/bin/python3
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"fail": {"type": "bool"}, "text": {"type": "str"}})
did = ["create file /x", module.params["text"]]
answer = {"changed": True, "did": did, "journal": {"a.service": ["l1", "l2"]}}
if module.params["fail"]:
    module.fail_json(msg="a.service: it died", **answer)
module.exit_json(**answer)
"""
PLAYBOOK = """
- name: Put things
  hosts: all
  gather_facts: false
  become: true
  tasks:
    - name: Do it
      do_it: {fail: "{{ bad }}", text: "{{ text }}"}
    - name: Hide it
      do_it: {fail: true, text: "{{ lookup('ansible.builtin.env', 'PDCTL_TEST_SECRET') }}"}
      no_log: true
      when: inventory_hostname == "secretive"
    - name: Never mind
      do_it: {fail: true, text: x}
      ignore_errors: true
      when: inventory_hostname == "good"
    - name: Say where things are
      ansible.builtin.debug:
        msg:
          folder: "{{ lookup('ansible.builtin.env', 'ANSIBLE_HOME') | dirname }}"
          known: "{{ lookup('ansible.builtin.pipe', search ~ ' ansible_python_interpreter; true') }}"
          secret: "{{ lookup('ansible.builtin.pipe', search ~ ' $PDCTL_TEST_SECRET; true') }}"
      vars:
        search: grep -rlF --directories=recurse $(dirname $ANSIBLE_HOME) -e
      when: inventory_hostname == "good"
"""
AWAY = Reach("away", "127.0.0.1", user="root", port=free_port(), config="/dev/null")
SECRET = "hunter2-in-plain"
TEMPLATE = "{{ messages | nonsense }}"


def here(**variables: Any) -> dict[str, Any]:
    return ansible_host_vars(Reach("x", "x", connection="local")) | {
        "bad": False,
        "text": "plain",
        **variables,
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "library").mkdir()
    (folder / "library/do_it.py").write_text(MODULE)
    (folder / "play.yml").write_text(PLAYBOOK)
    return folder


@pytest.fixture(scope="module")
def run(project: Path) -> tuple[Outcome, list[Event]]:
    hosts = {
        "good": here(text=TEMPLATE),
        "bad": here(bad=True),
        "secretive": here(),
        "away": {"bad": False, "text": ""} | ansible_host_vars(AWAY),
    }
    events: list[Event] = []
    os.environ |= {"PDCTL_TEST_SECRET": SECRET, "ANSIBLE_STRATEGY": "no-such-strategy"}
    try:
        outcome = run_playbook(
            "play.yml",
            {"all": {"hosts": hosts}},
            hosts=list(hosts),
            on_event=events.append,
            project_dir=project,
        )
    finally:
        del os.environ["PDCTL_TEST_SECRET"], os.environ["ANSIBLE_STRATEGY"]
    return outcome, events


def test_each_host_has_its_result(run: tuple[Outcome, list[Event]]) -> None:
    outcome, _ = run
    assert {host: result.status for host, result in outcome.hosts.items()} == {
        "good": "ok",
        "bad": "failed",
        "secretive": "failed",
        "away": "unreachable",
    }
    assert not outcome.ok


def test_what_was_done_and_the_journal_come_from_the_module(run: tuple[Outcome, list[Event]]) -> None:
    bad = run[0].hosts["bad"]
    assert (bad.message, bad.task, bad.did) == ("a.service: it died", "Do it", ("create file /x", "plain"))
    assert bad.journal == {"a.service": ("l1", "l2")}
    assert bad.changed


def test_text_that_looks_like_a_template_arrives_as_written(run: tuple[Outcome, list[Event]]) -> None:
    assert TEMPLATE in run[0].hosts["good"].did


def test_an_unreachable_host_keeps_the_words_of_ssh(run: tuple[Outcome, list[Event]]) -> None:
    assert f"connect to host 127.0.0.1 port {AWAY.port}: Connection refused" in run[0].hosts["away"].message
    assert not run[0].hosts["away"].message.startswith("Task failed")


def test_a_secret_task_tells_that_it_failed_and_nothing_more(run: tuple[Outcome, list[Event]]) -> None:
    secretive = run[0].hosts["secretive"]
    assert "hidden" in secretive.message
    assert SECRET not in repr(run)


def test_the_runs_own_files_hold_no_secret_and_are_gone_after_it(run: tuple[Outcome, list[Event]]) -> None:
    found = next(e.data["msg"] for e in run[1] if e.task == "Say where things are" and e.kind == "ok")
    assert "hosts.json" in found["known"]  # the search finds what is there
    assert found["secret"] == ""
    assert Path(found["folder"]).is_absolute()
    assert not Path(found["folder"]).exists()


def test_the_environment_is_on_disk_at_no_moment(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ansible-runner writes it to a file of this name as it starts."""
    kinds: list[bool] = []
    with tempfile.TemporaryDirectory(prefix="t") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)

        def look(event: Event) -> None:
            kinds.extend(path.is_fifo() for path in Path(short).rglob("artifacts/*/command"))

        inventory = {"all": {"hosts": {"good": here()}}}
        run_playbook("play.yml", inventory, hosts=["good"], on_event=look, project_dir=project)
    assert kinds and all(kinds)


def test_events_come_in_the_users_words(run: tuple[Outcome, list[Event]]) -> None:
    told = [(event.kind, event.host, event.task) for event in run[1]]
    assert told[0] == ("play", "", "Put things")
    assert told.index(("task", "", "Do it")) < told.index(("ok", "good", "Do it"))
    assert ("failed", "bad", "Do it") in told
    assert ("ignored", "good", "Never mind") in told


def test_a_playbook_that_cannot_be_read_is_quoted(project: Path) -> None:
    (project / "broken.yml").write_text("- hosts: all\n  tusks: []\n")
    with pytest.raises(ApplyError, match=r"'tusks' is not a valid attribute"):
        run_playbook(
            "broken.yml",
            {"all": {"hosts": {"a": here()}}},
            hosts=["a"],
            on_event=lambda event: None,
            project_dir=project,
        )


INTERRUPTED = """
import sys
from pathlib import Path
from pdctl.hosts.ansible import run_playbook
from pdctl.hosts.ansible_events import event_of
from pdctl.hosts.ansible_vars import ansible_host_vars
from pdctl.hosts.reach import Reach
from tests.hosts_unit.sshd import free_port
inventory = {"all": {"hosts": {"a": ansible_host_vars(Reach("a", "a", connection="local"))}}}
try:
    run_playbook("slow.yml", inventory, hosts=["a"], project_dir=Path(sys.argv[1]),
                 on_event=lambda event: print(event.kind, flush=True))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def interrupted(project: Path, temporary: Path, number: signal.Signals) -> tuple[int, list[str]]:
    """The status and the last words of a run that gets a signal in the middle; its task has ended, too."""
    began = project / "began"
    script = f"echo $$ > {began}.new; mv {began}.new {began}; exec sleep 60"
    task = f"{{name: Wait, ansible.builtin.command: sh -c '{script}'}}"
    (project / "slow.yml").write_text(f"- hosts: all\n  gather_facts: false\n  tasks: [{task}]\n")
    environment = os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(project)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        _until(began.exists)
        process.send_signal(number)
        said = process.stdout.read().split()
    _until(lambda: not Path("/proc", began.read_text().strip()).exists())
    began.unlink()
    return process.returncode, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_ansible_and_its_workers_and_is_raised_after(
    project: Path, tmp_path: Path, number: signal.Signals
) -> None:
    (temporary := tmp_path / "t").mkdir()
    status, said = interrupted(project, temporary, number)
    assert (status, said[-1]) == (0, "interrupted")
    assert list(temporary.iterdir()) == []


def test_kill_9_ends_ansible_and_its_workers_too(project: Path, tmp_path: Path) -> None:
    """Else it would go on to change hosts, with nobody to stop it."""
    (temporary := tmp_path / "t").mkdir()
    status, _ = interrupted(project, temporary, signal.SIGKILL)
    assert status == -signal.SIGKILL
    _until(lambda: not [pid for pid in Path("/proc").glob("[0-9]*") if _works_in(pid, project)])


def test_another_ansible_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdctl.hosts.ansible.version", lambda name: "2.17.9")
    with pytest.raises(
        ApplyError, match=r"ansible-core 2\.17\.9 is installed; pdctl works with 2\.18 and 2\.19"
    ):
        check_version()


def test_connections_are_not_shared_where_the_sockets_name_would_be_too_long(tmp_path: Path) -> None:
    long = tmp_path / ("x" * (100 - len(str(tmp_path))))
    long.mkdir()
    assert not fits(long / "cp")
    assert "ControlMaster=no" in environment(tmp_path, long, {}, 1)["ANSIBLE_SSH_ARGS"]
    (short := tmp_path / "s").mkdir()
    assert fits(short / "cp") is ("ANSIBLE_SSH_ARGS" not in environment(tmp_path, short, {}, 1))


def test_hosts_behind_a_jump_host_come_ten_at_a_time(tmp_path: Path) -> None:
    direct = ansible_host_vars(Reach("a", "10.0.0.1", user="ops"))
    behind = ansible_host_vars(Reach("b", "10.0.0.2", user="ops", jump="bastion"))
    (one := tmp_path / "1").mkdir()
    (two := tmp_path / "2").mkdir()
    assert environment(tmp_path, one, {"all": {"hosts": {"a": direct}}}, 40)["ANSIBLE_FORKS"] == "40"
    assert (
        environment(tmp_path, two, {"all": {"hosts": {"a": direct, "b": behind}}}, 40)["ANSIBLE_FORKS"]
        == "10"
    )


def _works_in(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink() == folder
    except OSError:  # it has ended, or is a zombie
        return False


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            'Data could not be sent to remote host "10.0.0.1". Make sure this host can be reached over ssh: ',
            "its ssh connection was lost in the middle of work (`Put`)",
        ),
        (
            "Failed to connect to the host via ssh: mux: gone\nssh: timed out\n",
            "there is no ssh connection to it for its work (`Put`): mux: gone; ssh: timed out",
        ),
        ("Permission denied", "Permission denied"),
    ],
)
def test_a_lost_host_is_told_in_one_line_with_what_it_was_at(said: str, told: str) -> None:
    raw = {"event": "runner_on_unreachable", "event_data": {"host": "a", "task": "Put", "res": {"msg": said}}}
    event = event_of(raw)
    assert event and event.msg == told
