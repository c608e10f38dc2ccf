"""The lab on this machine: boots real hosts, reaches them every way there is, and breaks them."""

import json
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from pdctl.errors import LabError
from pdctl.lab import Bind, Lab
from tests.labs import inside, lab_hosts, ssh, until

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    shown = tmp_path_factory.mktemp("bundle")
    (shown / "wheel").write_text("of the machine")
    with lab_hosts(2, tmp_path_factory, binds=[Bind(str(shown), "/opt/pdctl/bundle")]) as lab:
        yield lab


def test_hosts_run_systemd_and_answer_openssh_by_name_and_address(lab: Lab) -> None:
    for host, name in (("h1", "h1"), ("198.18.0.11", "h2")):
        done = ssh(lab, host, "hostname; id -un; sudo -n id -un; systemctl is-system-running")
        assert done.stdout.split() == [name, "ops", "root", "running"], done.stderr


def test_hosts_reach_each_other_by_name_and_nothing_else(lab: Lab) -> None:
    banner = "import socket; print(socket.create_connection(('h2', 22), 3).recv(4))"
    assert inside(lab, "h1", f"python3 -c {shlex.quote(banner)}") == "b'SSH-'"
    beyond = banner.replace("'h2', 22", "'192.0.2.1', 80")
    assert "Error" in lab.exec("h1", ["python3", "-c", beyond]).stderr
    outside = subprocess.run(["ip", "-4", "addr"], capture_output=True, text=True, check=True)
    assert "198.18.0" not in outside.stdout


@pytest.mark.parametrize("way", ["pipes", "passed descriptor"])
def test_paramiko_connects_through_the_same_config(lab: Lab, way: str) -> None:
    config = paramiko.SSHConfig.from_path(str(lab.ssh_config)).lookup("h1")
    client = paramiko.SSHClient()
    client.load_host_keys(config["userknownhostsfile"])
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    if way == "pipes":
        channel = paramiko.ProxyCommand(config["proxycommand"])
    else:
        ours, theirs = socket.socketpair()
        with ours, subprocess.Popen(shlex.split(config["proxycommand"]), stdin=theirs, stdout=theirs):
            channel = socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0])
            theirs.close()
    with client:
        client.connect(
            config["hostname"],
            username=config["user"],
            key_filename=config["identityfile"],
            sock=channel,
            allow_agent=False,
            look_for_keys=False,
        )
        _, stdout, _ = client.exec_command("hostname; head -c 3000000 /dev/zero")
        assert stdout.read() == b"h1\n" + bytes(3_000_000)


def test_the_library_connects_into_the_lab_and_stays_outside(lab: Lab) -> None:
    before = Path("/proc/thread-self/ns/net").readlink()
    with lab.connect("198.18.0.10", 22) as connection:
        assert connection.recv(4) == b"SSH-"
    assert Path("/proc/thread-self/ns/net").readlink() == before


def test_commands_run_in_a_host_as_root_or_in_the_labs_network(lab: Lab) -> None:
    assert lab.exec("h2", ["sh", "-c", "echo $HOME $(hostname) >&2; exit 4"]).stderr == "/root h2\n"
    assert lab.exec("h2", ["sh", "-c", "exit 4"]).returncode == 4
    words = lab.inside_argv(["ip", "-4", "-brief", "addr", "show", "br0"])
    assert "198.18.0.1/24" in subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_a_bind_is_read_only_and_nests_in_a_disk_that_is_not_memory(lab: Lab) -> None:
    assert inside(lab, "h1", "cat /opt/pdctl/bundle/wheel") == "of the machine"
    assert lab.exec("h1", ["touch", "/opt/pdctl/bundle/x"]).returncode != 0
    inside(lab, "h1", "echo venv > /opt/pdctl/mine")
    assert lab.paths.disk("h1", "/opt/pdctl/mine").read_text() == "venv\n"
    assert not lab.paths.disk("h2", "/opt/pdctl/mine").exists()
    kinds = inside(lab, "h1", "stat -f -c %T / /opt/pdctl").split()
    assert kinds[0] == "overlayfs" and kinds[1] not in ("tmpfs", "overlayfs")


def test_sysctls_of_a_host_are_its_own(lab: Lab) -> None:
    before = Path("/proc/sys/vm/swappiness").read_text()
    assert inside(lab, "h1", "sysctl -w vm.swappiness=3 >/dev/null; cat /proc/sys/vm/swappiness") == "3"
    assert Path("/proc/sys/vm/swappiness").read_text() == before != "3\n"


def test_a_cut_host_stops_answering_in_time_and_comes_back(lab: Lab) -> None:
    lab.cut("h2")
    assert [host.network for host in lab.status().hosts] == ["plugged", "cut"]
    began = time.monotonic()
    done = ssh(lab, "h2", "true")
    assert done.returncode == 255 and time.monotonic() - began < 10, done.stderr
    assert ssh(lab, "h1", "true").returncode == 0
    subprocess.run(lab.inside_argv(["ip", "neigh", "flush", "dev", "br0"]), check=True)
    until(lambda: ssh(lab, "h2", "true").returncode == 255 and lost(lab, "h2"), 30)
    lab.uncut("h2")
    # Whoever joins a search that began while the cable was cut is told that there is no route to the host.
    assert not lost(lab, "h2")
    until(lambda: ssh(lab, "h2", "true").returncode == 0)


def lost(lab: Lab, name: str) -> bool:
    """Whether the lab has looked for the host's address in vain."""
    words = lab.inside_argv(["ip", "neigh", "show", "nud", "failed"])
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (address,) = (host.address for host in lab.status().hosts if host.name == name)
    return f"{address} " in shown


def test_a_session_on_a_host_whose_cable_is_cut_ends_instead_of_hanging(lab: Lab) -> None:
    words = ["ssh", "-F", str(lab.ssh_config), "h2", "echo ready; sleep 100"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as session:
        assert session.stdout and session.stdout.readline() == "ready\n"
        lab.cut("h2")
        assert session.wait(25) == 255
    lab.uncut("h2")


def test_a_reboot_gives_a_new_boot_and_keeps_files(lab: Lab) -> None:
    boot_id = "cat /proc/sys/kernel/random/boot_id"
    before = inside(lab, "h1", boot_id)
    inside(lab, "h1", "echo kept > /root/file")
    lab.reboot("h1")
    assert inside(lab, "h1", boot_id) != before
    assert inside(lab, "h1", "cat /root/file") == "kept"


def test_power_off_is_sudden_and_boot_brings_the_host_back(lab: Lab) -> None:
    inside(lab, "h1", "echo kept > /root/file")
    lab.poweroff("h1")
    assert [host.power for host in lab.status().hosts] == ["off", "on"]
    with pytest.raises(LabError, match="`h1` is not running") as caught:
        lab.exec("h1", ["true"])
    assert caught.value.hint == "pdctl lab boot h1"
    lab.boot("h1")
    assert ssh(lab, "h1", "sudo cat /root/file").stdout == "kept\n"


def test_a_new_host_key_is_refused_until_reset_makes_the_host_as_new(lab: Lab) -> None:
    inside(lab, "h2", "echo mine > /root/file; echo mine > /opt/pdctl/file")
    lab.rekey("h2")
    assert "Host key verification failed" in ssh(lab, "h2", "true").stderr
    lab.reset("h2")
    assert ssh(lab, "h2", "sudo ls /root /opt/pdctl").stdout.split() == ["/opt/pdctl:", "bundle", "/root:"]


def test_a_shrunk_directory_is_full_and_can_be_given_back(lab: Lab) -> None:
    inside(lab, "h1", "mkdir -p /srv/small")
    lab.shrink("h1", "/srv/small", "64k")
    full = lab.exec("h1", ["dd", "if=/dev/zero", "of=/srv/small/x", "bs=1k", "count=100"])
    assert "No space left on device" in full.stderr
    inside(lab, "h1", "umount /srv/small; dd if=/dev/zero of=/srv/small/x bs=1k count=100 2>&1")


def test_a_directory_is_served_to_the_hosts(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "Release").write_text("Suite: stub\n")
    url = lab.serve(tmp_path, 8080)
    fetch = f"import urllib.request; print(urllib.request.urlopen('{url}Release').read())"
    assert inside(lab, "h1", f'python3 -c "{fetch}"') == r"b'Suite: stub\n'"
    assert [service.running for service in lab.status().services] == [True]
    with pytest.raises(LabError, match="port 8080 of the lab is in use"):
        lab.serve(tmp_path, 8080)
    assert [service.running for service in lab.status().services] == [True]


def test_up_again_adds_hosts_repairs_and_touches_no_other(lab: Lab) -> None:
    before = inside(lab, "h1", "cat /proc/sys/kernel/random/boot_id")
    lab.cut("h2")
    lab.poweroff("h2")
    status = lab.up(3)
    assert [(host.name, host.power, host.network) for host in status.hosts] == [
        (name, "on", "plugged") for name in ("h1", "h2", "h3")
    ]
    assert inside(lab, "h1", "cat /proc/sys/kernel/random/boot_id") == before
    assert inside(lab, "h1", "getent hosts h3").startswith("198.18.0.12")
    assert inside(lab, "h3", "cat /opt/pdctl/bundle/wheel") == "of the machine"


def test_the_commands_print_json_and_run_words_inside(lab: Lab) -> None:
    def pdctl(*words: str) -> subprocess.CompletedProcess[str]:
        program = "from pdctl.cli.lab import lab_app; lab_app()"
        argv = [sys.executable, "-c", program, words[0], "--dir", str(lab.paths.directory), *words[1:]]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    status = json.loads(pdctl("status", "--json").stdout)
    assert status["ssh_config"] == str(lab.ssh_config)
    assert [host["address"] for host in status["hosts"]][:2] == ["198.18.0.10", "198.18.0.11"]
    assert pdctl("exec", "--host", "h1", "--", "ls", "-d", "/opt").stdout == "/opt\n"
    assert pdctl("exec", "ip", "-brief", "link", "show", "type", "bridge").stdout.startswith("br0")
    assert "h1" in pdctl("status").stdout
