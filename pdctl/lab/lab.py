"""A directory -> virtual hosts with real systemd, sshd and apt, and back to nothing."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from pdctl.errors import LabError
from pdctl.lab import faults, hosts, network, removal, serving
from pdctl.lab.connect import TIMEOUT, joined
from pdctl.lab.enter import enter_argv, inside_argv
from pdctl.lab.locking import locked
from pdctl.lab.machine import claim_watches, require_machine
from pdctl.lab.mounts import is_mounted
from pdctl.lab.paths import default_cache, lab_paths, usable
from pdctl.lab.processes import run
from pdctl.lab.ssh import make_key, write_ssh_files
from pdctl.lab.state import ROOM, Bind, Host, LabState, read_state, write_state
from pdctl.lab.status import LabStatus, lab_status
from pdctl.lab.tree import TreeSpec, default_suite, ready_tree

DISKS = (
    "/opt/pdctl",
)  # pdctl's prefix on hosts: virtual environments of gigabytes do not belong into memory
PREFIX = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
TIMEOUT_UP = 60.0  # 50 hosts answered after 9 to 19 s on two busy cores


class Lab:
    """The lab in `directory`. As a context manager it is taken down at the end."""

    def __init__(
        self,
        directory: Path | str,
        cache: Path | str | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.paths = lab_paths(directory)
        self.cache = usable(Path(cache) if cache else default_cache())
        self.report = report

    def build(self, suite: str | None = None, looks_like: str = "none", force: bool = False) -> Path:
        """Choose the base tree for hosts to come, building it if the cache has none."""
        require_machine()
        with self._changing() as state:
            return Path(
                self._choose_tree(state, TreeSpec(suite or default_suite(), looks_like), force).tree or ""
            )

    def up(
        self,
        count: int,
        prefix: str = "h",
        binds: Sequence[Bind] = (),
        disks: Sequence[str] = DISKS,
        timeout: float = TIMEOUT_UP,
    ) -> LabStatus:
        """Boot `prefix`1 to `prefix``count` and wait for their sshd; makes whole what is there in part."""
        require_machine()
        names = _names(prefix, count)
        with self._changing() as state:
            state = _with_mounts(state, tuple(binds), tuple(disks))
            if not state.hosts and not (state.tree and Path(state.tree).is_dir()):
                state = self._choose_tree(state, TreeSpec(default_suite()))
            state = state.with_new_hosts(names)
            write_state(self.paths.state, state)
            wanted = self._boot(state, names)
            network.plug(self.paths, wanted, "up")
            hosts.wait_for_ssh(self.paths, wanted, timeout)
        return self.status()

    def status(self) -> LabStatus:
        return lab_status(self.paths, read_state(self.paths.state))

    def inside_argv(self, command: Sequence[str]) -> list[str]:
        """The words that run `command` in the lab's network."""
        return inside_argv(self.paths, command)

    def enter_argv(self, name: str, command: Sequence[str]) -> list[str]:
        """The words that run `command` as root in the host."""
        return enter_argv(self.paths, self._host(name), command)

    def exec(self, name: str, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run `command` as root in the host and give back its status and output."""
        return subprocess.run(self.enter_argv(name, command), capture_output=True, text=True, check=False)

    def connect(self, address: str, port: int, timeout: float = TIMEOUT) -> socket.socket:
        """A TCP connection made inside the lab's network, for a program outside it."""
        inside_argv(self.paths, [])  # refuses a lab that is not up
        with joined(str(self.paths.lab_netns)):
            return socket.create_connection((address, port), timeout)

    @property
    def ssh_config(self) -> Path:
        """For `ssh -F`, Ansible and paramiko, from outside the lab's network as from inside."""
        return self.paths.ssh_config

    def cut(self, name: str) -> None:
        """Unplug the host's network cable."""
        network.plug(self.paths, [self._host(name)], "down")

    def uncut(self, name: str) -> None:
        """Plug the host's network cable in again."""
        network.plug(self.paths, [self._host(name)], "up")

    def poweroff(self, name: str) -> None:
        """Pull the host's power."""
        with self._changing() as state:
            self._record(state.with_host(faults.poweroff(self.paths, state.host(name))))

    def boot(self, name: str, timeout: float = TIMEOUT_UP) -> None:
        """Power the host on and wait for its sshd."""
        with self._changing() as state:
            state.host(name)
            hosts.wait_for_ssh(self.paths, self._boot(state, [name]), timeout)

    def reboot(self, name: str, timeout: float = TIMEOUT_UP) -> None:
        """Reboot in order and wait for the new sshd."""
        with self._changing() as state:
            faults.reboot(self.paths, state.host(name), timeout)
            hosts.wait_for_ssh(self.paths, [state.host(name)], timeout)

    def reset(self, name: str, timeout: float = TIMEOUT_UP) -> None:
        """Make the host as new, with a new host key in known_hosts, and boot it."""
        with self._changing() as state:
            state = self._record(state.with_host(faults.reset(self.paths, state, state.host(name))))
            hosts.wait_for_ssh(self.paths, self._boot(state, [name]), timeout)

    def rekey(self, name: str) -> None:
        """Change the host's ssh key behind known_hosts' back."""
        faults.rekey(self.paths, self._host(name))

    def shrink(self, name: str, path: str, size: str) -> None:
        """Put a file system of `size` (e.g. `64k`) over the host's `path`."""
        faults.shrink(self.paths, self._host(name), path, size)

    def serve(self, directory: Path | str, port: int = 8080) -> str:
        """Serve a directory over HTTP at the lab's gateway; gives back the URL."""
        with self._changing() as state:
            service = serving.serve(self.paths, Path(directory).resolve(), port)
            self._record(replace(state, services=(*state.services, service)))
        return service.url

    def down(self, purge: bool = False) -> None:
        """End every process and remove every trace; `purge` drops the base tree from the cache too."""
        if self.paths.directory.is_dir():
            require_machine()
            removal.remove(self.paths, purge, self._waiting)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def _host(self, name: str) -> Host:
        return read_state(self.paths.state).host(name)

    def _record(self, state: LabState) -> LabState:
        write_state(self.paths.state, state)
        return state

    @contextmanager
    def _changing(self) -> Iterator[LabState]:
        """The recorded state, while no other command may change it."""
        with locked(self.paths.lock, self._waiting):
            try:
                yield read_state(self.paths.state)
            finally:
                if not self.paths.state.exists():  # refused before anything was made
                    removal.remove_files(self.paths)

    def _waiting(self) -> None:
        self.report(f"waiting for another command on the lab in {self.paths.directory}")

    def _choose_tree(self, state: LabState, spec: TreeSpec, force: bool = False) -> LabState:
        if state.hosts:
            raise LabError("the lab has hosts, and they keep their base tree", hint="pdctl lab down first")
        state = self._record(
            replace(state, cache=str(self.cache))
        )  # `down` cleans up there after a killed build
        tree = ready_tree(spec, self.cache, self.paths.lab_id, force=force, report=self.report)
        return self._record(replace(state, tree=str(tree)))

    def _boot(self, state: LabState, names: Sequence[str]) -> list[Host]:
        """Make what is missing of the named hosts and power them on; the state is recorded after each."""
        paths = self.paths
        if not is_mounted(paths.memory):
            paths.memory.mkdir(exist_ok=True)
            run("mount", "-t", "tmpfs", "-o", "mode=755,size=90%", paths.lab_id, paths.memory)
        make_key(paths.key, paths.lab_id)
        claim_watches(paths.lab_id, len(state.hosts))
        for name in names:
            if not hosts.is_made(paths, name):
                hosts.make_files(paths, state, state.host(name))
        hosts.write_etc_hosts(paths, state.hosts.values())
        network.wire(paths, [state.host(name) for name in names])
        for name in names:
            state = self._record(state.with_host(hosts.start(paths, state, state.host(name))))
        write_ssh_files(paths, state.hosts.values())
        return [state.host(name) for name in names]


def _names(prefix: str, count: int) -> list[str]:
    if not PREFIX.fullmatch(prefix) or len(prefix) > 50:
        raise LabError(f"`{prefix}` cannot begin a host name", hint="use lower-case letters, digits and `-`")
    if not 1 <= count <= ROOM:
        raise LabError(f"a lab cannot have {count} hosts", hint=f"ask for 1 to {ROOM}")
    return [f"{prefix}{number}" for number in range(1, count + 1)]


def _with_mounts(state: LabState, binds: tuple[Bind, ...], disks: tuple[str, ...]) -> LabState:
    """Hosts of one lab show the same binds; a later `up` without any keeps them."""
    for bind in binds:
        if not Path(bind.source).exists():
            raise LabError(f"cannot show `{bind.source}` in the hosts: it is not there")
    for target in (*disks, *(bind.target for bind in binds)):
        if not re.fullmatch(r"(/[\w.+@-]+)+", target) or ".." in Path(target).parts:
            raise LabError(f"`{target}` is not an absolute path to mount on")
    if not state.hosts:
        return replace(state, binds=binds, disks=disks)
    if binds and binds != state.binds:
        raise LabError("the lab's hosts were made with other binds", hint="pdctl lab down first")
    return state
