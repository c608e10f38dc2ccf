"""Sessions, the probe and Ansible against real hosts: real sshd, real sudo, real faults."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pdctl.errors import HostError, UnreachableError
from pdctl.hosts.ansible import Event, Outcome, ansible_host_vars, run_playbook
from pdctl.hosts.logs import tail
from pdctl.hosts.probe import ask, probe, request
from pdctl.hosts.reach import Reach
from pdctl.hosts.session import open_session
from pdctl.hosts.sessions import Sessions
from pdctl.lab import Lab
from pdctl.spec.model import Cluster
from pdctl.state import Directory, File, Package, State, Unit, User, key_of
from tests.labs import inside, lab_hosts

pytestmark = pytest.mark.hosts
HOSTS = ("h1", "h2", "h3")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab_hosts(len(HOSTS), tmp_path_factory) as lab:
        yield lab


@pytest.fixture
def cluster(lab: Lab) -> Cluster:
    return Cluster.model_validate(
        {
            "cluster": "chat",
            "ssh": {"config": str(lab.ssh_config)},
            "hosts": [{"name": name} for name in HOSTS],
            "model": {"id": "pdctl/tiny"},
            "serving": {"prefillers": {}, "decoders": {}},
        }
    )


def at(lab: Lab, name: str, **changes: Any) -> Reach:
    return Reach(**({"name": name, "address": name, "config": str(lab.ssh_config)} | changes))


def test_one_round_trip_brings_back_every_host(cluster: Cluster) -> None:
    seen = probe(cluster, _wanted("h1"), Path("/"))
    assert dict(seen.failures) == {}
    assert {host: facts.hostname for host, facts in seen.facts.items()} == {name: name for name in HOSTS}
    assert all(facts.root and facts.systemd for facts in seen.facts.values())
    ids = {key.id for key in seen.state}
    assert ids == {"file:/etc/hostname", "directory:/etc", "package:sudo", "user:root", "unit:ssh.service"}
    assert dict(seen.contents) == {key_of("h1", File("/etc/hostname", "")): b"h1\n"}


def test_a_host_that_is_cut_off_stops_no_other(lab: Lab, cluster: Cluster) -> None:
    lab.cut("h2")
    try:
        started = time.monotonic()
        seen = probe(cluster, {}, Path("/"))
        assert time.monotonic() - started < 15
    finally:
        lab.uncut("h2")
    assert set(seen.facts) == {"h1", "h3"}
    assert isinstance(seen.failures["h2"], UnreachableError)
    assert "198.18.0.11 port 22" in seen.failures["h2"].message


def test_a_program_whose_host_is_cut_off_is_given_up_long_before_its_time(lab: Lab) -> None:
    with open_session(at(lab, "h2")) as session:
        cut = threading.Timer(0.5, lab.cut, ["h2"])
        cut.start()
        started = time.monotonic()
        try:
            with pytest.raises(UnreachableError, match="connection was lost"):
                session.run(b"", ["sleep", "100"], timeout=100)
            assert time.monotonic() - started < 30
        finally:
            cut.join()
            lab.uncut("h2")


def test_a_changed_host_key_is_refused_by_the_probe_and_by_ansible(lab: Lab, cluster: Cluster) -> None:
    keys = lab.exec("h3", ["sh", "-c", "mkdir -p /root/keys && cp -a /etc/ssh/ssh_host_* /root/keys"])
    assert keys.returncode == 0
    lab.rekey("h3")
    try:
        failure = probe(cluster, {}, Path("/")).failures["h3"]
        outcome = _play(lab, "h3")
    finally:
        inside(lab, "h3", "rm /etc/ssh/ssh_host_*; cp -a /root/keys/* /etc/ssh && systemctl restart ssh")
    assert "host key has changed" in failure.message
    assert "known_hosts:3" in failure.message
    assert outcome.hosts["h3"].status == "unreachable"
    assert "Host key verification failed" in outcome.hosts["h3"].message


def test_sudo_that_asks_for_a_password_is_said_with_the_rule_that_helps(lab: Lab) -> None:
    with pytest.raises(HostError, match="sudo asks opspw for a password") as caught:
        _ask(lab, "h1", user="opspw")
    assert "opspw ALL=(ALL) NOPASSWD: ALL" in str(caught.value.hint)


def test_a_user_who_may_not_use_sudo_is_said(lab: Lab) -> None:
    inside(
        lab,
        "h1",
        "useradd -m -s /bin/bash guest; cp -r /home/ops/.ssh /home/guest; chown -R guest: /home/guest",
    )
    with pytest.raises(HostError, match="guest"):
        _ask(lab, "h1", user="guest")
    assert _ask(lab, "h1", user="guest", become=False).facts.root is False


def test_a_host_without_sudo_is_said(lab: Lab) -> None:
    with _moved(lab, "h1", "/usr/bin/sudo"), pytest.raises(HostError, match="sudo is missing"):
        _ask(lab, "h1")


@pytest.mark.parametrize("become", [True, False])
def test_a_host_without_python_is_said(lab: Lab, become: bool) -> None:
    with (
        _moved(lab, "h1", "/usr/bin/python3"),
        pytest.raises(HostError, match="/usr/bin/python3 is missing") as caught,
    ):
        _ask(lab, "h1", become=become)
    assert caught.value.hint == "on the host: apt-get install python3"


def test_a_wrong_answer_is_an_error_of_that_host_with_its_last_words(lab: Lab) -> None:
    inside(
        lab,
        "h1",
        "mv /usr/bin/python3 /usr/bin/python3.was; printf '#!/bin/sh\\necho who am I >&2; exit 5\\n'"
        " > /usr/bin/python3; chmod 755 /usr/bin/python3",
    )
    try:
        with pytest.raises(HostError, match=r"the probe failed \(exit status 5\): who am I"):
            _ask(lab, "h1")
    finally:
        inside(lab, "h1", "mv /usr/bin/python3.was /usr/bin/python3")


def test_a_noisy_login_shell_does_not_spoil_the_answer(lab: Lab) -> None:
    inside(lab, "h1", "sed -i '1i echo welcome; echo to the rack >&2' /home/ops/.bashrc")
    try:
        assert _ask(lab, "h1").facts.hostname == "h1"
    finally:
        inside(lab, "h1", "sed -i 1d /home/ops/.bashrc")


def test_a_host_is_reached_through_another_by_the_probe_and_by_ansible(lab: Lab) -> None:
    """The jump host is reached through the lab's ProxyCommand, the other from inside."""
    with open_session(at(lab, "h2", jump="ops@h1", become=False)) as session:
        assert session.run(b"", ["sh", "-c", "echo $SSH_CONNECTION"]).out.startswith(b"198.18.0.10 ")
    outcome = _play(lab, "h2", jump="ops@h1")
    assert outcome.ok, outcome


def test_ansible_shares_connections_and_leaves_none_behind(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    masters: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="m-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        outcome = _play(lab, *HOSTS, on_event=lambda event: masters.update(_masters(folder)))
        assert outcome.ok, outcome
        assert len(masters) == len(HOSTS)
        assert _masters(folder) == set()
        assert list(Path(folder).iterdir()) == []


def test_a_journal_is_followed_and_let_go(lab: Lab) -> None:
    with open_session(at(lab, "h1")) as session:
        pieces = tail(session, "chatter.service", 5, follow=True)
        inside(lab, "h1", "systemd-run --unit=chatter.service sh -c 'echo one; echo two; sleep 30'")
        text = ""
        while "two" not in text:
            text += next(pieces)
        pieces.close()  # type: ignore[attr-defined]
        assert "one" in text
        deadline = time.monotonic() + 10
        while "journalctl" in inside(lab, "h1", "ps -eo args | grep [j]ournalctl || true"):
            assert time.monotonic() < deadline
        inside(lab, "h1", "systemctl stop chatter.service")


def _wanted(host: str) -> State:
    some = (
        File("/etc/hostname", "sha256:other", content=b"other"),
        Directory("/etc"),
        Package("sudo"),
        User("root", "/root"),
        Unit("ssh.service"),
        File("/nowhere", "sha256:0"),
    )
    return {key_of(host, resource): resource for resource in some}


def _ask(lab: Lab, host: str, **changes: Any) -> Any:
    with Sessions({host: at(lab, host, **changes)}) as sessions:
        return ask(sessions, host, request("chat", []), 60)


def _masters(folder: str) -> set[str]:
    """ssh names a connection it shares after its socket: `ssh: PATH [mux]`."""
    listing = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
    return {line for line in listing.splitlines() if line.startswith(f"ssh: {folder}") and "[mux]" in line}


def _play(
    lab: Lab, *hosts: str, on_event: Callable[[Event], None] = lambda event: None, **changes: Any
) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ansible.cfg").write_text(
            "[ssh_connection]\npipelining = True\nssh_args = -o ControlMaster=auto -o ControlPersist=60s\n"
        )
        Path(folder, "ping.yml").write_text(
            "- hosts: all\n  gather_facts: false\n  become: true\n"
            "  tasks: [{name: Ping, ansible.builtin.ping: {}}, {name: Again, ansible.builtin.ping: {}}]\n"
        )
        inventory = {"all": {"hosts": {name: ansible_host_vars(at(lab, name, **changes)) for name in hosts}}}
        return run_playbook("ping.yml", inventory, hosts=hosts, on_event=on_event, project_dir=Path(folder))


@contextlib.contextmanager
def _moved(lab: Lab, host: str, path: str) -> Iterator[None]:
    inside(lab, host, f"mv {path} {path}.gone")
    try:
        yield
    finally:
        inside(lab, host, f"mv {path}.gone {path}")
