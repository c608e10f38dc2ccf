"""Sessions against a real sshd: host keys, logins, programs, forwards, jump hosts."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdctl.errors import HostError, UnreachableError
from pdctl.hosts.gateways import Gateways
from pdctl.hosts.session import open_session
from tests.hosts_unit.sshd import SSHD, USER, Sshd, free_port, make_key, running

pytestmark = pytest.mark.skipif(SSHD is None, reason="sshd is not installed (apt-get install openssh-server)")

ECHO = ("sh", "-c", "cat; echo oops >&2; exit 3")


def test_a_program_gets_its_input_and_gives_both_streams_and_its_status(server: Sshd) -> None:
    with open_session(server.reach(become=False)) as session:
        result = session.run(b"x" * 3_000_000, ECHO)
    assert (result.rc, len(result.out), result.err) == (3, 3_000_000, b"oops\n")


def test_python_runs_a_program_from_its_input(server: Sshd) -> None:
    with open_session(server.reach(become=False)) as session:
        assert session.run(b"print(6 * 7)").out == b"42\n"


def test_words_with_spaces_and_quotes_arrive_as_they_are(server: Sshd) -> None:
    words = ["printf", "%s\n", "a b", "it's", "$HOME", "*"]
    with open_session(server.reach(become=False)) as session:
        assert session.run(b"", words).out.decode().splitlines() == words[2:]


def test_a_program_that_does_not_end_is_given_up(server: Sshd) -> None:
    started = time.monotonic()
    with open_session(server.reach(become=False)) as session, pytest.raises(HostError, match="has not ended"):
        session.run(b"", ["sleep", "30"], timeout=0.3)
    assert time.monotonic() - started < 5


def test_a_lost_connection_is_told_from_a_failing_program(server: Sshd) -> None:
    with (
        open_session(server.reach(become=False)) as session,
        pytest.raises(UnreachableError, match="connection was lost"),
    ):
        session.run(b"", ["sh", "-c", "kill -9 $PPID; sleep 30"], timeout=20)


def test_an_unknown_host_key_is_refused_with_its_fingerprint_and_nothing_is_learnt(
    server: Sshd, tmp_path: Path
) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text("")
    with pytest.raises(UnreachableError, match=r"host key .*SHA256:.* is not known") as caught:
        open_session(server.reach(known_hosts=str(known_hosts)))
    assert f"ssh-keyscan -p {server.port} 127.0.0.1 >> {known_hosts}" in str(caught.value.hint)
    assert known_hosts.read_text() == ""


def test_a_changed_host_key_names_the_line_and_both_fingerprints(server: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other", "ed25519").with_suffix(".pub").read_text().split()
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(f"# mine\n\n[127.0.0.1]:{server.port} {other[0]} {other[1]}\n")
    with pytest.raises(UnreachableError, match="has changed") as caught:
        open_session(server.reach(known_hosts=str(known_hosts)))
    assert f"{known_hosts}:3" in caught.value.message
    assert caught.value.message.count("SHA256:") == 2
    assert _fingerprint(tmp_path / "other.pub") in caught.value.message
    assert _fingerprint(server.folder / "host_ed25519.pub") in caught.value.message


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_the_type_of_host_key_that_is_known_is_asked_for(server: Sshd, tmp_path: Path, kind: str) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(f"[127.0.0.1]:{server.port} {server.host_key(kind)}\n")
    open_session(server.reach(known_hosts=str(known_hosts))).close()


def test_a_hashed_known_hosts_is_understood(server: Sshd, tmp_path: Path) -> None:
    known_hosts = tmp_path / "known_hosts"
    shutil.copy(server.known_hosts, known_hosts)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known_hosts], check=True, capture_output=True)
    assert "127.0.0.1" not in known_hosts.read_text()
    open_session(server.reach(known_hosts=str(known_hosts))).close()


def test_a_key_that_is_not_authorized_is_named(server: Sshd, tmp_path: Path) -> None:
    stranger = make_key(tmp_path / "stranger", "ed25519")
    with pytest.raises(UnreachableError, match="accepts none of the keys") as caught:
        open_session(server.reach(key=str(stranger)))
    assert str(stranger) in caught.value.message
    assert "ssh-copy-id" in str(caught.value.hint)


@pytest.mark.parametrize("kind", ["missing", "a folder"])
def test_a_key_of_the_spec_that_cannot_be_read_is_not_passed_over_for_another(
    server: Sshd, tmp_path: Path, kind: str
) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host *\n  IdentityFile {server.key}\n")
    open_session(server.reach(key=None, config=str(config))).close()
    key = tmp_path / "id"
    if kind == "a folder":
        key.mkdir()
    said = {"missing": "No such file or directory", "a folder": "Is a directory"}[kind]
    with pytest.raises(UnreachableError) as caught:
        open_session(server.reach(key=str(key), config=str(config)))
    assert str(caught.value) == f"h1: `ssh.key` cannot be used: {key}: {said}"
    assert caught.value.hint


def test_an_encrypted_key_without_an_agent_asks_for_ssh_add(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    locked = make_key(tmp_path / "locked", "ed25519", "secret")
    with pytest.raises(UnreachableError, match="is encrypted and no agent holds it") as caught:
        open_session(server.reach(key=str(locked)))
    assert caught.value.hint == f"ssh-add {locked}"


def test_an_agent_that_holds_the_encrypted_key_is_used(server: Sshd, tmp_path: Path) -> None:
    locked = Path(shutil.copy(server.key, tmp_path / "locked"))
    with _agent(tmp_path / "agent.sock") as agent:
        subprocess.run(["ssh-add", "-q", locked], env=os.environ | agent, check=True, capture_output=True)
        subprocess.run(
            ["ssh-keygen", "-q", "-p", "-N", "secret", "-f", locked], check=True, capture_output=True
        )
        config = tmp_path / "config"
        config.write_text(f"Host *\n  IdentityAgent {agent['SSH_AUTH_SOCK']}\n")
        open_session(server.reach(key=str(locked), config=str(config))).close()
        locked.unlink()  # its public half is enough to know it by
        shutil.copy(f"{server.key}.pub", f"{locked}.pub")
        open_session(server.reach(key=str(locked), config=str(config))).close()


def test_the_users_configuration_is_followed(server: Sshd, tmp_path: Path) -> None:
    (tmp_path / "more").write_text(
        f"Host engine-*\n  HostName 127.0.0.1\n  Port {server.port}\n  IdentityFile {server.key}\n"
    )
    config = tmp_path / "config"
    config.write_text(
        f"Include {tmp_path}/more\nHost *\n  User {USER}\n  UserKnownHostsFile {server.known_hosts}\n"
    )
    at = server.reach(
        address="engine-7", config=str(config), user=None, port=None, key=None, known_hosts=None
    )
    with open_session(at) as session:
        assert session.user == USER


def test_a_name_that_does_not_resolve_is_said(server: Sshd) -> None:
    with pytest.raises(UnreachableError, match=r"`nowhere\.invalid` does not resolve"):
        open_session(server.reach(address="nowhere.invalid"))


def test_a_port_without_sshd_is_said(server: Sshd) -> None:
    port = free_port()
    with pytest.raises(UnreachableError, match=f"port {port} refuses connections"):
        open_session(server.reach(port=port))


def test_a_configuration_that_ssh_refuses_is_quoted(server: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Hots *\n")
    with pytest.raises(UnreachableError, match=r"config: line 1: Bad configuration option: hots"):
        open_session(server.reach(config=str(config)))


def test_a_host_behind_jump_hosts_is_reached_through_them(server: Sshd, tmp_path: Path) -> None:
    with running(tmp_path / "jump") as jump:
        (jump.folder / "authorized_keys").write_text((server.folder / "id.pub").read_text())
        both = tmp_path / "known_hosts"
        both.write_text(server.known_hosts.read_text() + jump.known_hosts.read_text())
        chain = ",".join([f"{USER}@127.0.0.1:{jump.port}"] * 2)
        with open_session(server.reach(jump=chain, known_hosts=str(both), become=False)) as session:
            client = session.run(b"", ["sh", "-c", "echo $SSH_CONNECTION"]).out.split()
            assert int(client[3]) == server.port
        assert jump.log().count("Accepted publickey") == 2


def test_hosts_behind_one_jump_host_share_its_connection(server: Sshd, tmp_path: Path) -> None:
    with running(tmp_path / "jump") as jump, Gateways() as gateways:
        (jump.folder / "authorized_keys").write_text((server.folder / "id.pub").read_text())
        both = tmp_path / "known_hosts"
        both.write_text(server.known_hosts.read_text() + jump.known_hosts.read_text())
        at = server.reach(jump=f"{USER}@127.0.0.1:{jump.port}", known_hosts=str(both))
        for _ in range(3):
            open_session(at, gateways).close()
        assert jump.log().count("Accepted publickey") == 1


def test_an_unknown_jump_host_is_named(server: Sshd, tmp_path: Path) -> None:
    with running(tmp_path / "jump") as jump, pytest.raises(UnreachableError, match="is not known") as caught:
        open_session(server.reach(jump=f"127.0.0.1:{jump.port}"))
    assert caught.value.where == f"h1: jump host 127.0.0.1:{jump.port}"


def test_a_stream_comes_piece_by_piece_and_its_program_ends_with_it(server: Sshd) -> None:
    script = "echo $$; while echo tick; do sleep 0.05; done"
    with open_session(server.reach(become=False)) as session:
        lines = session.stream(["sh", "-c", script])
        running = Path("/proc", next(lines).split()[0])
        assert next(lines).startswith("tick")
        assert running.exists()
        lines.close()  # type: ignore[attr-defined]
        deadline = time.monotonic() + 5
        while running.exists() and time.monotonic() < deadline:
            session.run(b"", ["true"])
    assert not running.exists()


def _fingerprint(public: Path) -> str:
    said = subprocess.run(["ssh-keygen", "-l", "-f", public], check=True, capture_output=True, text=True)
    return said.stdout.split()[1]


@contextlib.contextmanager
def _agent(path: Path) -> Iterator[dict[str, str]]:
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 5
        while not path.exists() and time.monotonic() < deadline:
            os.sched_yield()
        yield {"SSH_AUTH_SOCK": str(path)}
    finally:
        process.terminate()
        process.wait(5)
