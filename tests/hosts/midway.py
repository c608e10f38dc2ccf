"""An apply caught in the middle of something, by what is to be seen on the hosts."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path

from pdctl.bundle.collect import default_folder
from tests.hosts.line import HOSTS, Line, Ran, changed
from tests.labs import until

SLOW_S = 4  # pretended load time of an engine, to have something to wait for
MOMENTS = ("building environments", "waiting for decoders")


def begun(line: Line, during: str) -> subprocess.Popen[str]:
    """An apply that is at one of MOMENTS: on both hosts, or where the first decoder restarts."""
    if during == "building environments":
        return building(line, HOSTS)
    line.write({"engine": {"kind": "simulator", "simulator": {"start_s": SLOW_S}}})
    before = line.lives()
    running = line.start("apply", "--yes")
    wait_for(running, lambda: changed(before, line.lives()) & {"decoder-0", "decoder-1"})
    return running


def building(line: Line, hosts: tuple[str, ...]) -> subprocess.Popen[str]:
    for host in HOSTS:
        line.inside("rm -r /opt/pdctl/venvs/*", host)
    running = line.start("apply", "--yes")
    wait_for(running, lambda: all(builds(line, host) for host in hosts))
    return running


def copying(line: Line, host: str, wheel: str = "uv-*") -> tuple[subprocess.Popen[str], Path, int]:
    """An apply in the middle of sending a wheel; the part that has come, and the size of the whole."""
    line.inside("rm -r /opt/pdctl/venvs/* /opt/pdctl/bundle", host)
    (whole,) = default_folder().glob(f"wheels/{wheel}")
    running = line.start("apply", "--yes")
    parts = line.lab.paths.root(host) / "var/tmp"

    def part() -> Path | None:
        found = list(parts.glob(f"pdctl-line.*/bundle/wheels/{whole.name}"))
        return found[0] if found and found[0].stat().st_size else None

    wait_for(running, part)
    found = part()
    assert found
    return running, found, whole.stat().st_size


def wait_for(running: subprocess.Popen[str], condition: Callable[[], object], timeout: float = 60) -> None:
    """Until the condition holds; the apply must not end before, and does not outlive a failure."""

    def holds() -> object:
        assert running.poll() is None, running.communicate()
        return condition()

    try:
        until(holds, timeout)
    except BaseException:
        running.terminate()
        running.communicate(timeout=30)
        raise


def builds(line: Line, host: str) -> bool:
    return line.lab.exec(host, ["sh", "-c", "ls -d /opt/pdctl/venvs/.pdctl-build"]).returncode == 0


def ended(running: subprocess.Popen[str], timeout: float = 120) -> Ran:
    out, err = running.communicate(timeout=timeout)
    return Ran(running.returncode, out, err)


def children(line: Line) -> list[str]:
    """Processes that pdctl has left behind: its private state folder is in their environment."""
    mark = f"XDG_STATE_HOME={line.state}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found
