"""A web server at the lab's gateway, e.g. for a package repository: the hosts reach nothing else."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

from pdctl.errors import LabError
from pdctl.lab import cgroup
from pdctl.lab.connect import joined
from pdctl.lab.enter import inside_argv
from pdctl.lab.paths import LabPaths
from pdctl.lab.processes import alive, launch, tail
from pdctl.lab.state import GATEWAY, Service


def serve(paths: LabPaths, directory: Path, port: int, timeout: float = 10.0) -> Service:
    """Serve `directory`; returns when it answers."""
    if not directory.is_dir():
        raise LabError(f"no such directory: `{directory}`")
    web = [sys.executable, "-I", "-m", "http.server", str(port), "--bind", GATEWAY, "-d", str(directory)]
    argv = inside_argv(paths, web)
    if _accepts(paths, port):
        raise LabError(f"port {port} of the lab is in use", hint="choose another port")
    group = cgroup.lab_group(paths.lab_id) / f"serve-{port}"
    group.mkdir(parents=True, exist_ok=True)
    process = launch(group, argv, paths.service_log(port))
    deadline = time.monotonic() + timeout
    while not _accepts(paths, port):
        if not alive(process) or time.monotonic() > deadline:
            cgroup.end(group)
            raise LabError(f"no web server on port {port}: {tail(paths.service_log(port), 1)}")
        time.sleep(0.02)
    return Service(f"http://{GATEWAY}:{port}/", str(directory), process)


def _accepts(paths: LabPaths, port: int) -> bool:
    with joined(str(paths.lab_netns)):
        try:
            socket.create_connection((GATEWAY, port), 1).close()
        except OSError:  # not listening yet
            return False
    return True
