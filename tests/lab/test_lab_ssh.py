import subprocess
import sys
from pathlib import Path

import paramiko

from pdctl.lab.hosts import etc_hosts, nspawn_argv
from pdctl.lab.paths import lab_paths
from pdctl.lab.ssh import known_hosts_line, make_key, ssh_config
from pdctl.lab.state import Bind, Host, LabState

HOSTS = (Host("h1", 10), Host("h2", 11))


def openssh(config: Path, host: str) -> dict[str, str]:
    """What the real ssh makes of the config."""
    done = subprocess.run(["ssh", "-G", "-F", str(config), host], capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def test_openssh_and_paramiko_read_the_same_from_the_config_in_a_directory_with_spaces(
    tmp_path: Path,
) -> None:
    paths = lab_paths(tmp_path / "my lab")
    paths.directory.mkdir()
    paths.ssh_config.write_text(ssh_config(paths, HOSTS, python="/opt/my python"))
    for asked in ("h2", "198.18.0.11"):
        ours = openssh(paths.ssh_config, asked)
        theirs = paramiko.SSHConfig.from_path(str(paths.ssh_config)).lookup(asked)
        assert ours["hostname"] == theirs["hostname"] == "198.18.0.11"
        assert ours["user"] == theirs["user"] == "ops"
        assert [ours["identityfile"]] == theirs["identityfile"] == [str(paths.key)]
        assert ours["userknownhostsfile"] == theirs["userknownhostsfile"] == str(paths.known_hosts)
        assert ours["proxyusefdpass"] == theirs["proxyusefdpass"] == "yes"
        assert ours["stricthostkeychecking"] in ("yes", "true")
        command = ours["proxycommand"].replace("%h", "198.18.0.11").replace("%p", "22")
        assert command == theirs["proxycommand"]
        assert command.startswith("'/opt/my python' -I -S ") and f"'{paths.lab_netns}'" in command


def test_other_hosts_are_none_of_the_configs_business(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(ssh_config(lab_paths(tmp_path), HOSTS))
    assert "proxycommand" not in openssh(tmp_path / "config", "example.test")


def test_a_host_key_is_known_by_name_and_address() -> None:
    assert known_hosts_line(HOSTS[0], "ssh-ed25519 AAAA h1\n") == "h1,198.18.0.10 ssh-ed25519 AAAA\n"


def test_a_key_whose_making_was_interrupted_is_made_again(tmp_path: Path) -> None:
    key = tmp_path / "id_ed25519"
    key.write_text("half a ke")
    make_key(key, "test")
    public = key.with_suffix(".pub").read_text()
    derived = subprocess.run(["ssh-keygen", "-y", "-f", str(key)], capture_output=True, text=True, check=True)
    assert derived.stdout.split()[:2] == public.split()[:2]
    make_key(key, "test")
    assert key.with_suffix(".pub").read_text() == public


def test_new_hosts_replace_our_block_of_etc_hosts_and_nothing_else() -> None:
    first = etc_hosts("127.0.0.1 localhost\n", HOSTS[:1])
    edited = first + "10.0.0.1 storage\n"
    second = etc_hosts(edited, HOSTS)
    assert second.startswith("127.0.0.1 localhost\n10.0.0.1 storage\n")
    assert second.count("198.18.0.10 h1\n") == second.count("198.18.0.11 h2\n") == 1
    assert etc_hosts(second, HOSTS) == second


def test_the_disk_of_a_host_lies_in_the_lab_and_a_bind_may_nest_in_it(tmp_path: Path) -> None:
    paths = lab_paths(tmp_path)
    state = LabState(binds=(Bind("/a:b", "/opt/pdctl/bundle"),), disks=("/opt/pdctl",))
    argv = nspawn_argv(paths, state, "h1")
    assert f"--bind={tmp_path}/disk/h1/opt/pdctl:/opt/pdctl" in argv
    assert r"--bind-ro=/a\:b:/opt/pdctl/bundle" in argv


def test_the_ssh_command_runs_with_the_python_that_runs_pdctl(tmp_path: Path) -> None:
    assert f"ProxyCommand {sys.executable} " in ssh_config(lab_paths(tmp_path), HOSTS)
