"""One host: its files over the shared base tree, and systemd as its process 1."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pdctl.errors import LabError
from pdctl.lab import cgroup
from pdctl.lab.connect import joined
from pdctl.lab.mounts import is_mounted, unmount_under
from pdctl.lab.paths import LabPaths
from pdctl.lab.processes import alive, launch, run, tail
from pdctl.lab.ssh import make_key
from pdctl.lab.state import GATEWAY, Bind, Host, LabState

# nspawn leaves with 133 when the host asked to reboot: power it on again, after as many seconds as the file
# reboot-delay holds (to play a slow firmware).
SUPERVISE = """delay=$0
while :; do "$@"; rc=$?; [ $rc = 133 ] || exit $rc; [ -e "$delay" ] && sleep "$(cat "$delay")"; done"""
# The hosts get cgroup2 whatever the machine uses; no lock files in /run for a directory that is ours alone.
NSPAWN_ENV = {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_NSPAWN_LOCK": "0"}
HOSTS_MARK = "# hosts of the lab"


def make_files(paths: LabPaths, state: LabState, host: Host) -> None:
    """The host's own files and empty disks, as new, and the mounted root."""
    top, upper = paths.host(host.name), paths.upper(host.name)
    shutil.rmtree(paths.disk(host.name), ignore_errors=True)
    for part in ("upper/etc/ssh", "upper/root", "upper/home", "work", "root"):
        (top / part).mkdir(parents=True, exist_ok=True)
    for part in ("", "etc", "etc/ssh", "home"):
        (upper / part).chmod(0o755)
    (upper / "root").chmod(0o700)
    machine_id = hashlib.sha256(f"{paths.lab_id}/{host.name}".encode()).hexdigest()[:32]
    (upper / "etc/machine-id").write_text(machine_id + "\n")
    (upper / "etc/hostname").write_text(host.name + "\n")
    (upper / "etc/hosts").write_text(etc_hosts("127.0.0.1 localhost\n", state.hosts.values()))
    (upper / "etc/resolv.conf").write_text("# no resolver\n")
    make_key(upper / "etc/ssh/ssh_host_ed25519_key", host.name)
    _authorise(upper / "root", paths, 0)
    for user in ("ops", "opspw"):
        _authorise(upper / "home" / user, paths, (_tree(state) / "home" / user).stat().st_uid)
    mount_root(paths, state, host.name)
    (top / "made").touch()


def is_made(paths: LabPaths, name: str) -> bool:
    return (paths.host(name) / "made").exists()


def forget_files(paths: LabPaths, name: str) -> None:
    """Every change the host made, on its disks too."""
    unmount_under(paths.host(name))
    for path in (paths.host(name), paths.disk(name)):
        if path.exists():
            shutil.rmtree(path)


def mount_root(paths: LabPaths, state: LabState, name: str) -> None:
    root = paths.root(name)
    if not is_mounted(root):
        layers = f"lowerdir={_tree(state)},upperdir={paths.upper(name)},workdir={paths.host(name) / 'work'}"
        run("mount", "-t", "overlay", paths.lab_id, "-o", layers, root)


def start(paths: LabPaths, state: LabState, host: Host) -> Host:
    """Power the host on, unless it is."""
    if alive(host.process):
        return host
    mount_root(paths, state, host.name)
    for disk in state.disks:
        paths.disk(host.name, disk).mkdir(parents=True, exist_ok=True)
    group = cgroup.lab_group(paths.lab_id) / host.name
    cgroup.end(group)  # started by a command that was killed before it could record it
    group.mkdir(parents=True)
    delay = paths.host(host.name) / "reboot-delay"
    argv = ["sh", "-c", SUPERVISE, str(delay), *nspawn_argv(paths, state, host.name)]
    return replace(host, process=launch(group, argv, paths.console(host.name), NSPAWN_ENV))


def nspawn_argv(paths: LabPaths, state: LabState, name: str) -> list[str]:
    """The words that boot the host in the foreground."""
    disks = [Bind(str(paths.disk(name, disk)), disk) for disk in state.disks]
    return [
        "systemd-nspawn",
        "--quiet",
        "--boot",
        f"--directory={paths.root(name)}",
        f"--machine={paths.lab_id}-{name}",
        f"--hostname={name}",
        "--register=no",  # no machined or D-Bus needed on the machine
        "--keep-unit",
        "--settings=no",
        "--link-journal=no",
        "--timezone=off",
        "--resolv-conf=off",
        "--console=pipe",
        f"--network-namespace-path={paths.netns(name)}",
        *(f"--bind={_colons(bind)}" for bind in disks),
        *(f"--bind-ro={_colons(bind)}" for bind in state.binds),  # nspawn mounts shorter targets first
    ]


def wait_for_ssh(paths: LabPaths, hosts: Sequence[Host], timeout: float) -> None:
    """Until the sshd of every host has sent its banner."""
    left = {host.name: host for host in hosts}
    deadline = time.monotonic() + timeout
    with joined(str(paths.lab_netns)):
        while left and time.monotonic() < deadline and all(alive(host.process) for host in left.values()):
            for name in [name for name, host in left.items() if _answers(host.address)]:
                del left[name]
            if left:
                time.sleep(0.05)
    if left:
        ended = [name for name, host in left.items() if not alive(host.process)]
        console = paths.console((ended or list(left))[0])
        what = f"{', '.join(ended)} ended" if ended else f"no ssh from {', '.join(left)} within {timeout:g} s"
        raise LabError(
            f"{what}: {tail(console)}",
            hint=f"read {console}; `pdctl lab up` goes on from here, `pdctl lab down` removes all",
        )


def write_etc_hosts(paths: LabPaths, hosts: Iterable[Host]) -> None:
    """Tell the hosts made earlier about the ones made later; their other lines stay."""
    hosts = tuple(hosts)
    for host in hosts:
        file = paths.root(host.name) / "etc/hosts"
        if file.exists():
            before = file.read_text()
            if (text := etc_hosts(before, hosts)) != before:
                file.write_text(text)


def etc_hosts(text: str, hosts: Iterable[Host]) -> str:
    """`text` with our block of names replaced, or added at the end."""
    kept = re.sub(rf"{HOSTS_MARK}\n.*{HOSTS_MARK} end\n", "", text, flags=re.DOTALL)
    names = "".join(f"{host.address} {host.name}\n" for host in hosts)
    return f"{kept}{HOSTS_MARK}\n{GATEWAY} gateway\n{names}{HOSTS_MARK} end\n"


def _authorise(home: Path, paths: LabPaths, uid: int) -> None:
    ssh = home / ".ssh"
    ssh.mkdir(exist_ok=True, parents=True)
    keys = ssh / "authorized_keys"
    keys.write_text(paths.key.with_suffix(".pub").read_text())
    for path, mode in ((home, 0o700), (ssh, 0o700), (keys, 0o600)):
        path.chmod(mode)
        os.chown(path, uid, uid)


def _tree(state: LabState) -> Path:
    if state.tree is None or not Path(state.tree).is_dir():
        raise LabError(f"the base tree is gone: {state.tree}", hint="pdctl lab down, then pdctl lab up")
    return Path(state.tree)


def _answers(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), 0.3) as connection:
            connection.settimeout(1)
            return connection.recv(4) == b"SSH-"
    except OSError:  # not up yet, in one of several ways
        return False


def _colons(bind: Bind) -> str:
    return ":".join(path.replace("\\", "\\\\").replace(":", "\\:") for path in (bind.source, bind.target))
