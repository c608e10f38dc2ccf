"""The words for ssh, and what ssh makes of them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from pdctl.errors import SpecError
from pdctl.hosts.ansible_vars import ansible_host_vars, literal
from pdctl.hosts.openssh import Login, learning, options, resolve
from pdctl.hosts.reach import Reach, reach
from pdctl.spec.model import Cluster
from tests.hosts_unit.sshd import SSHD, USER, Sshd, running


def test_paths_of_the_spec_start_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    cluster = _cluster({"key": "keys/id", "known_hosts": "~/kh", "config": "/etc/x"}, {"address": "10.0.0.7"})
    found = reach(cluster, cluster.hosts[0], tmp_path)
    assert (found.key, found.known_hosts, found.config) == (f"{tmp_path}/keys/id", "/home/me/kh", "/etc/x")
    assert (found.name, found.address) == ("h1", "10.0.0.7")


def test_a_hosts_own_ssh_section_replaces_the_clusters(tmp_path: Path) -> None:
    cluster = _cluster({"user": "ops", "port": 2222}, {"ssh": {"user": "root"}})
    found = reach(cluster, cluster.hosts[0], tmp_path)
    assert (found.user, found.port, found.address) == ("root", None, "h1")


def test_ssh_is_told_never_to_ask_and_never_to_learn() -> None:
    words = options(Reach("h1", "h1"))
    assert "StrictHostKeyChecking=yes" in words
    assert "BatchMode=yes" in words


def test_resolving_gives_what_the_spec_says_first(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n  User other\n  Port 9\n  IdentityFile ~/.ssh/other\n  ConnectTimeout 3\n")
    login = resolve(Reach("h1", "10.0.0.7", user="ops", port=22, key="/k/100% mine", config=str(config)))
    assert (login.host, login.user, login.port, login.timeout_s) == ("10.0.0.7", "ops", 22, 3.0)
    assert login.identities[0] == "/k/100% mine"
    assert login.identities_only


def test_tokens_and_aliases_of_the_configuration_are_expanded(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "Host h1\n  HostName 10.0.0.7\n  User ops\n  HostKeyAlias rack-7\n  UserKnownHostsFile /kh/%h\n"
        "  ProxyCommand relay %n %h %p %r 100%%\n  ProxyUseFdpass yes\n  IdentityAgent none\n"
    )
    login = resolve(Reach("h1", "h1", config=str(config)))
    assert login.proxy_command == "relay h1 10.0.0.7 22 ops 100%"
    assert (login.fdpass, login.alias, login.agent) == (True, "rack-7", None)
    assert login.known_hosts[0] == "/kh/10.0.0.7"


def test_jump_hosts_of_the_configuration_are_used(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host h1\n  ProxyJump ops@a:2222,b\n")
    assert resolve(Reach("h1", "h1", config=str(config))).jumps == ("ops@a:2222", "b")


def test_a_jump_host_of_the_spec_wins_over_a_proxy_command(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n  ProxyCommand relay %h %p\n")
    login = resolve(Reach("h1", "h1", jump="ops@a", config=str(config)))
    assert (login.jumps, login.proxy_command) == (("ops@a",), None)
    assert resolve(Reach("h1", "h1", config=str(config)), "ops@a").proxy_command == "relay a 22"


def test_a_jump_host_with_an_ipv6_address_is_understood() -> None:
    login = resolve(Reach("h1", "h1", config="/dev/null"), "ops@[fd00::1]:2222")
    assert (login.user, login.host, login.port) == ("ops", "fd00::1", 2222)
    assert resolve(Reach("h1", "h1", config="/dev/null"), "fd00::1").host == "fd00::1"


@pytest.mark.parametrize("jump", ["-oProxyCommand=true", "a b:c", "ops@:22", "a:port", "@a"])
def test_what_is_no_jump_host_is_refused(jump: str) -> None:
    at = Reach("h1", "h1", config="/dev/null", jump=jump)
    with pytest.raises(SpecError, match="is not a jump host"):
        options(at)


@pytest.mark.skipif(SSHD is None, reason="sshd is not installed (apt-get install openssh-server)")
@pytest.mark.parametrize("hops", [0, 2])
def test_ssh_itself_takes_the_words_and_gets_through(server: Sshd, tmp_path: Path, hops: int) -> None:
    """Also with blanks and percent signs in names, and through jump hosts that know nothing of our files."""
    odd = tmp_path / "100% odd %h names"
    odd.mkdir()
    key, known_hosts = odd / "id", odd / "known_hosts"
    shutil.copy(server.key, key)
    with running(tmp_path / "jump") as jump:
        (jump.folder / "authorized_keys").write_text((server.folder / "id.pub").read_text())
        known_hosts.write_text(server.known_hosts.read_text() + jump.known_hosts.read_text())
        chain = ",".join([f"{USER}@127.0.0.1:{jump.port}"] * hops) or None
        at = server.reach(jump=chain, key=str(key), known_hosts=str(known_hosts))
        words = shlex.split(ansible_host_vars(at)["ansible_ssh_common_args"])
        done = subprocess.run(
            ["ssh", *words, at.address, "echo through"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.stdout == "through\n", done.stderr
        assert jump.log().count("Accepted publickey") == hops


def test_ansible_gets_the_connection_in_its_own_words() -> None:
    at = Reach("h1", "10.0.0.7", user="ops", port=2222, known_hosts="/kh", config="/c")
    words = "-F /c -o 'UserKnownHostsFile=\"/kh\"' -o StrictHostKeyChecking=yes -o BatchMode=yes"
    assert ansible_host_vars(at) == {
        "ansible_host": "10.0.0.7",
        "ansible_user": "ops",
        "ansible_port": 2222,
        "ansible_ssh_common_args": f"{words} -o User=ops -o Port=2222",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_become": True,
    }


def test_root_needs_no_sudo(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host h1\n  User root\nHost h2\n  User ops\n")
    assert ansible_host_vars(Reach("h1", "h1", user="root"))["ansible_become"] is False
    assert ansible_host_vars(Reach("h1", "h1", config=str(config)))["ansible_become"] is False
    assert ansible_host_vars(Reach("h2", "h2", config=str(config)))["ansible_become"] is True
    assert ansible_host_vars(Reach("h2", "h2", config=str(config), become=False))["ansible_become"] is False


def test_only_what_looks_like_a_template_is_marked() -> None:
    value = {"a": ["{{ x }}", "{% if %}", "{# no #}", "${HOME} {x}"], "b": {"c": 1, "d": None}, "e": ("t",)}
    assert literal(value) == {
        "a": [*({"__ansible_unsafe": text} for text in ("{{ x }}", "{% if %}", "{# no #}")), "${HOME} {x}"],
        "b": {"c": 1, "d": None},
        "e": ["t"],
    }


def test_the_way_to_learn_a_key_is_one_that_can_work() -> None:
    at = Reach("h1", "10.0.0.7", user="ops", known_hosts="/my kh")
    direct = Login("10.0.0.7", 22, "ops", None, (), False, None, ("/my kh",), None, False, (), 10.0)
    behind = Login("10.0.0.7", 22, "ops", None, (), False, None, ("/my kh",), None, False, ("a",), 10.0)
    assert "ssh-keyscan -p 22 10.0.0.7 >> /my kh" in learning(at, direct)
    assert "keyscan" not in learning(at, behind)
    assert "-o 'UserKnownHostsFile=/my kh' 10.0.0.7" in learning(at, behind)


def _cluster(ssh: dict[str, object], host: dict[str, object]) -> Cluster:
    return Cluster.model_validate(
        {
            "cluster": "chat",
            "ssh": ssh,
            "hosts": [{"name": "h1", **host}],
            "model": {"id": "pdctl/tiny"},
            "serving": {},
        }
    )
