"""Apply broken off in its middle: the lock is free, nothing is half-written, the next apply goes on."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hosts.line import HOSTS, Line, Ran, changed, line_on_hosts, soak
from tests.hosts.mended import converges
from tests.labs import until

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """Without the bundle in view, so that pdctl has to bring it."""
    with line_on_hosts(tmp_path_factory, bound=False) as line:
        line.apply()
        yield line


@pytest.fixture
def line(hosts: Line) -> Line:
    hosts.mend()
    return hosts


def wait_for(running: subprocess.Popen[str], line: Line, condition: Callable[[], bool]) -> None:
    def holds() -> bool:
        assert running.poll() is None, running.communicate()
        return condition()

    until(holds, timeout=60)


def builds(line: Line, host: str) -> bool:
    return line.lab.exec(host, ["sh", "-c", "ls -d /opt/pdctl/venvs/.pdctl-build"]).returncode == 0


def begun(line: Line, during: str) -> subprocess.Popen[str]:
    """An apply that is in the middle of something."""
    if during == "building environments":
        for host in HOSTS:
            line.inside("rm -r /opt/pdctl/venvs/*", host)
        running = line.start("apply", "--yes")
        wait_for(running, line, lambda: builds(line, "h1") and builds(line, "h2"))
        return running
    line.write({"engine": {"kind": "simulator", "simulator": {"start_s": 4}}})
    before = line.lives()
    running = line.start("apply", "--yes")
    wait_for(running, line, lambda: {"decoder-0", "decoder-1"} <= changed(before, line.lives()))
    return running


def ended(running: subprocess.Popen[str]) -> Ran:
    out, err = running.communicate(timeout=60)
    return Ran(running.returncode, out, err)


MOMENTS = ("building environments", "waiting for decoders")


@pytest.mark.parametrize("during", MOMENTS)
def test_after_ctrl_c_the_lock_is_free_and_the_next_apply_goes_on(line: Line, during: str) -> None:
    running = begun(line, during)
    running.send_signal(signal.SIGINT)
    ran = ended(running).must(130)
    assert ran.err.splitlines()[-1] == "interrupted; run the same command again to go on"
    assert "Traceback" not in ran.err
    assert children(line) == []
    converges(line)


@pytest.mark.parametrize("during", [MOMENTS[0], pytest.param(MOMENTS[1], marks=soak)])
def test_after_a_kill_the_next_apply_goes_on(line: Line, during: str) -> None:
    running = begun(line, during)
    running.kill()
    ended(running)
    converges(line)
    until(lambda: children(line) == [], timeout=60)


def children(line: Line) -> list[str]:
    """Processes that pdctl has left behind: its private state folder is in their environment."""
    mark = f"XDG_STATE_HOME={line.state}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def test_a_second_apply_at_the_same_time_is_refused_and_told_of_the_first(line: Line) -> None:
    running = begun(line, "building environments")
    second = line.pdctl("apply", "--yes").must(1)
    first = ended(running).must()
    assert f"error: another pdctl works on `line`: process {running.pid}, `" in second.err
    assert (
        "apply --yes`" in second.err
        and f"hint: wait for it, or look at it: ps -fp {running.pid}" in second.err
    )
    assert first.status == 0 and line.diff()["empty"]


@soak
def test_a_host_lost_in_the_middle_is_named_and_the_next_apply_goes_on(line: Line) -> None:
    for host in HOSTS:
        line.inside("rm -r /opt/pdctl/venvs/*", host)
    running = line.start("apply", "--yes")
    try:
        wait_for(running, line, lambda: builds(line, "h2"))
        line.lab.cut("h2")
        begun_at = time.monotonic()
        ran = ended(running).must(1)
        assert time.monotonic() - begun_at < 60
    finally:
        line.lab.uncut("h2")
    error = ran.err[ran.err.index("error: ") :].splitlines()
    assert error[0] == "error: `line` was not brought to its spec on 1 host" and error[1].startswith("  h2: ")
    assert "create venv /opt/pdctl/venvs/proxy-" in ran.err
    converges(line)


@soak
def test_a_prefiller_lost_after_its_decoder_was_restarted_is_restarted_by_the_next_apply(line: Line) -> None:
    """The decoder runs and is recorded as wanted; that the prefiller knew its former life is only owed."""
    stale = {"engine": {"kind": "simulator", "simulator": {"stale_peers": True, "start_s": 4}}}
    line.write(stale, decoders={"count": 1})
    line.apply()
    lives = line.lives()
    line.write(stale, decoders={"count": 1, "env": {"NCCL_DEBUG": "INFO"}})
    running = line.start("apply", "--yes")
    try:
        wait_for(running, line, lambda: "decoder-0" in changed(lives, line.lives()))
        line.lab.cut("h1")
        assert "start" in ended(running).must(1).err
    finally:
        line.lab.uncut("h1")
    assert changed(lives, line.lives()) == {"decoder-0"}
    peer = "its peer decoder-0 restarts, and LMCache never renews a peer"
    assert [(row["instance"], row["causes"]) for row in line.diff()["restarts"]] == [("prefiller-0", [peer])]
    converges(line)
    assert changed(lives, line.lives()) == {"decoder-0", "prefiller-0"}
