"""A lab in any condition, half-made or half-removed -> nothing."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from pdctl.errors import LabError
from pdctl.lab import cgroup
from pdctl.lab.locking import locked
from pdctl.lab.machine import release_watches
from pdctl.lab.mounts import unmount_under
from pdctl.lab.paths import LabPaths
from pdctl.lab.processes import alive
from pdctl.lab.state import LabState, read_state
from pdctl.lab.tree import remove_half_built, remove_trees

NSPAWN_RUN = Path(
    "/run/systemd/nspawn"
)  # nspawn leaves an empty directory per machine in two places below it


def remove(paths: LabPaths, purge: bool, waiting: Callable[[], None]) -> None:
    """Remove everything that carries the lab's id or lies in its directory, whatever the state says."""
    with locked(paths.lock, waiting):
        state = _state_if_readable(paths)
        cgroup.end(cgroup.lab_group(paths.lab_id))
        _end_recorded(state)
        unmount_under(paths.memory)
        release_watches(paths.lab_id)
        for kind in ("propagate", "unix-export"):
            for left in NSPAWN_RUN.joinpath(kind).glob(f"{paths.lab_id}-*"):
                shutil.rmtree(left)
        if state.cache:
            remove_half_built(Path(state.cache), paths.lab_id)
        if purge and state.cache and state.tree:
            remove_trees(Path(state.tree), Path(state.cache))
        remove_files(paths)


def remove_files(paths: LabPaths) -> None:
    """Our own names only: the directory may be one that the user keeps other files in."""
    for directory in (paths.memory, paths.directory / "disk"):
        if directory.exists():
            shutil.rmtree(directory)
    public = paths.key.with_suffix(".pub")
    for file in (paths.key, public, paths.known_hosts, paths.ssh_config, paths.state, paths.lock):
        file.unlink(missing_ok=True)
    for directory in (paths.directory, paths.directory.parent):
        ours = directory == paths.directory or directory.name == ".pdctl"
        if ours and not any(directory.iterdir()):
            directory.rmdir()


def _state_if_readable(paths: LabPaths) -> LabState:
    """Damaged, or of another version: the lab's id and directory still name what there is to remove."""
    try:
        return read_state(paths.state)
    except LabError:
        return LabState()


def _end_recorded(state: LabState) -> None:
    """Only what the cgroup missed: a machine may have lost its cgroup2 mount in between."""
    hosts = [host.process for host in state.hosts.values() if host.process]
    for process in [*hosts, *(service.process for service in state.services)]:
        if alive(process):
            os.kill(process.pid, signal.SIGKILL)
