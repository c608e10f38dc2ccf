"""Playbook x inventory -> Outcome: one Ansible run; the only import of ansible_runner."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pdctl.assets import assets
from pdctl.errors import ApplyError
from pdctl.hosts.ansible_events import Event, HostResult, advance, event_of
from pdctl.hosts.ansible_vars import ansible_host_vars, literal
from pdctl.hosts.control_path import CONTROL, end_masters, fits, private_folder
from pdctl.hosts.leash import leashed
from pdctl.hosts.timing import laps

__all__ = ["Event", "HostResult", "Outcome", "ansible_host_vars", "run_playbook"]

SUPPORTED = ((2, 18), (2, 20))  # ansible-core, first to just before last
AT_ONCE = 64
# sshd lets 10 connections log in at once, then drops some (sshd_config(5): MaxStartups 10:30:100).
AT_ONCE_BEHIND_JUMP = 10
POLL_S = 0.5  # how often a Ctrl-C is looked for
GRACE_S = 5.0  # how long Ansible may take to end its workers after one
POLITE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130
# ssh's arguments where its control sockets find no place with a short enough name.
UNSHARED = "-o ControlMaster=no -o ControlPath=none -o ServerAliveInterval=5 -o ServerAliveCountMax=3"


@dataclass(frozen=True)
class Outcome:
    """How a run ended on every host that had part in it."""

    rc: int
    hosts: Mapping[str, HostResult]
    notices: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.rc == 0 and all(result.status == "ok" for result in self.hosts.values())


def run_playbook(
    playbook: str,
    inventory: Mapping[str, Any],
    *,
    hosts: Sequence[str],
    on_event: Callable[[Event], None],
    env: Mapping[str, str] | None = None,
    project_dir: Path | None = None,
) -> Outcome:
    """Run `playbook` of `project_dir` on `hosts`, all at once.

    Failures of hosts are in the outcome; a run that fails without one raises ApplyError. A Ctrl-C, or another
    polite signal, ends Ansible and its workers first and is raised after.
    """
    check_version()
    project = project_dir or assets("playbooks")
    seen = _Seen(on_event, {host: HostResult(host) for host in hosts})
    with private_folder() as folder, _interrupts() as interrupted:
        settings = environment(project, folder, inventory, len(hosts)) | dict(env or {})
        if "ANSIBLE_SSH_ARGS" in settings:
            seen.take(
                {"event": "warning", "stdout": f"{folder} is too long a name: ssh connections are not shared"}
            )
        try:
            with laps("ansible"):
                seen.starting = time.monotonic()
                rc, said = _ansible_runner(
                    playbook, literal(inventory), project, folder, settings, seen, interrupted
                )
        finally:
            end_masters(folder / CONTROL)
    if interrupted.is_set():
        raise KeyboardInterrupt
    if rc and all(result.status == "ok" for result in seen.results.values()):
        raise ApplyError(f"ansible-playbook failed (exit status {rc}):\n{said}", where=playbook)
    return Outcome(rc, seen.results, tuple(seen.notices))


def check_version() -> None:
    """Refuses an ansible-core that pdctl has not been tried with."""
    found = version("ansible-core")
    first, last = SUPPORTED
    if not first <= tuple(int(part) for part in found.split(".")[:2]) < last:
        raise ApplyError(
            f"ansible-core {found} is installed; pdctl works with 2.18 and 2.19",
            hint=f"{sys.executable} -m pip install 'ansible-core>=2.18,<2.20'",
        )


def environment(project: Path, folder: Path, inventory: Mapping[str, Any], hosts: int) -> dict[str, str]:
    """What Ansible is told beside `project`/ansible.cfg: private places, and nothing of the user's own."""
    config = project / "ansible.cfg"
    if not config.exists():
        config = folder / "ansible.cfg"
        config.touch()
    (folder / CONTROL).mkdir(mode=0o700)
    told = {
        "PATH": f"{sysconfig.get_path('scripts')}:{os.environ.get('PATH', os.defpath)}",
        "LC_ALL": "C.UTF-8",  # Ansible refuses any locale that is not UTF-8
        "ANSIBLE_CONFIG": str(config),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_CALLBACK_PLUGINS": "",
        "ANSIBLE_HOST_KEY_CHECKING": "True",  # ansible-runner would turn it off
        "ANSIBLE_FORKS": str(max(1, min(hosts, AT_ONCE_BEHIND_JUMP if _jumps(inventory) else AT_ONCE))),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / CONTROL),
    }
    return told if fits(folder / CONTROL) else told | {"ANSIBLE_SSH_ARGS": UNSHARED}


def _jumps(inventory: Mapping[str, Any]) -> bool:
    """Whether any host is reached through a jump host of the spec."""
    hosts = inventory.get("all", {}).get("hosts", {}).values()
    return any(
        " -W " in str(variables.get("ansible_ssh_common_args", "")) for variables in hosts if variables
    )


@dataclass
class _Seen:
    """What the events of a run add up to."""

    on_event: Callable[[Event], None]
    results: dict[str, HostResult]
    notices: list[str] = field(default_factory=list)
    pid: int | None = None
    starting: float | None = None  # since when Ansible has been starting; None when it has begun

    def interrupt(self) -> None:
        """A Ctrl-C to Ansible's whole group: 2.19 ends its workers itself, those of 2.18 must hear it too."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.killpg(os.getpgid(self.pid), signal.SIGINT)

    def take(self, raw: dict[str, Any]) -> bool:
        """False: ansible-runner need not keep the event on disk."""
        self.pid = raw.get("pid", self.pid)
        self._time(raw.get("event_data") or {})
        if event := event_of(raw):
            if event.kind == "notice":
                self.notices.append(event.msg)
            if event.host:
                self.results[event.host] = advance(
                    self.results.get(event.host, HostResult(event.host)), event
                )
            self.on_event(event)
        return False

    def _time(self, data: Mapping[str, Any]) -> None:
        """What a host took for a task, as Ansible's own process measured it; and until there was a task."""
        if data.get("play") and self.starting is not None:
            laps.add("start Ansible", "", time.monotonic() - self.starting)
            self.starting = None
        if data.get("host") and data.get("play") and "duration" in data:
            laps.add(data["play"], data["host"], float(data["duration"]))


def _ansible_runner(
    playbook: str,
    inventory: Mapping[str, Any],
    project: Path,
    folder: Path,
    settings: Mapping[str, str],
    seen: _Seen,
    interrupted: threading.Event,
) -> tuple[int, str]:
    """The exit status, and the end of what Ansible printed."""
    from ansible_runner.interface import init_runner

    runner = init_runner(
        private_data_dir=str(folder),
        project_dir=str(project),
        playbook=playbook,
        inventory=inventory,
        envvars=dict(settings),
        settings={"pexpect_timeout": POLL_S},
        quiet=True,
        event_handler=seen.take,
        cancel_callback=_Canceller(seen, interrupted),
    )
    for name in [name for name in runner.config.env if name.startswith("ANSIBLE_") and name in os.environ]:
        if name not in settings:  # the user's own settings for other work
            del runner.config.env[name]
    runner.config.command = leashed(runner.config.command)
    with _swallowed(Path(runner.config.artifact_dir, "command")):
        try:
            status, rc = runner.run()
        except BaseException:
            seen.interrupt()
            raise
    printed = Path(runner.config.artifact_dir, "stdout").read_text(errors="replace")
    return (rc if status != "canceled" else INTERRUPTED), "\n".join(printed.strip().splitlines()[-20:])


@contextmanager
def _swallowed(path: Path) -> Iterator[None]:
    """What is written to `path` is read and dropped, and reaches no disk.

    ansible-runner writes its environment, secrets included, to artifacts/ID/command (runner.py, 2.4).
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.mkfifo(path, 0o600)
    drain = threading.Thread(target=path.read_bytes, daemon=True)
    drain.start()
    try:
        yield
    finally:
        while drain.is_alive():
            with contextlib.suppress(OSError):  # until it has opened its end, there is nobody to release
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            drain.join(0.01)


@dataclass
class _Canceller:
    """Asked by ansible-runner every `POLL_S`: True makes it kill Ansible, which leaves orphans.

    So Ansible is first asked to end by itself, as by a Ctrl-C in its own terminal.
    """

    seen: _Seen
    interrupted: threading.Event
    deadline: float | None = None

    def __call__(self) -> bool:
        if not self.interrupted.is_set():
            return False
        if self.deadline is None:
            self.deadline = time.monotonic() + GRACE_S
            if self.seen.pid is None:
                return True  # not far enough to have workers
            self.seen.interrupt()
        return time.monotonic() > self.deadline


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """A signal sets the event instead of tearing through ansible-runner, which would leave Ansible behind."""
    event = threading.Event()
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        heard = [number for number in POLITE if signal.getsignal(number) is not signal.SIG_IGN]  # nohup
        before = {number: signal.signal(number, lambda *_: event.set()) for number in heard}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
