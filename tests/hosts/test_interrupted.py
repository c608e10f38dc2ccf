"""Apply broken off in its middle: the lock is free, nothing is half-written, the next apply goes on."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable

import pytest

from tests.hosts.line import Line, Ran, changed, soak
from tests.hosts.mended import converges
from tests.hosts.midway import MOMENTS, begun, building, children, copying, ended, wait_for
from tests.labs import until

pytestmark = pytest.mark.hosts


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


def test_after_a_kill_nothing_waits_on_for_an_engine_that_never_serves(line: Line) -> None:
    """Neither Ansible here nor its module there, else the next apply would stand behind it."""
    line.write({"engine": {"kind": "simulator", "simulator": {"start_s": 600}}})
    before = line.lives()
    running = line.start("apply", "--yes")
    wait_for(running, lambda: changed(before, line.lives()))
    running.kill()
    ended(running)
    line.write()
    begun_at = time.monotonic()
    converges(line)
    assert time.monotonic() - begun_at < 300


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


def unplug(line: Line) -> None:
    line.lab.cut("h2")


def kill_sshd(line: Line) -> None:
    """With all its sessions; systemd starts it again."""
    line.inside("systemctl kill -s KILL --kill-whom=all ssh", "h2")


def reboot(line: Line) -> None:
    line.lab.reboot("h2")


def pull_the_power(line: Line) -> None:
    line.lab.poweroff("h2")


LOSSES: dict[str, Callable[[Line], None]] = {
    "link cut": unplug,
    "sshd killed": kill_sshd,
    "host rebooted": reboot,
    "power cut": pull_the_power,
}


@pytest.mark.parametrize("during", [MOMENTS[0], pytest.param(MOMENTS[1], marks=soak)])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_host_lost_in_the_middle_is_named_and_the_next_apply_goes_on(
    line: Line, loss: str, during: str
) -> None:
    running = begun(line, during) if during != MOMENTS[0] else building(line, ("h2",))
    began = time.monotonic()
    try:
        LOSSES[loss](line)
        ran = ended(running).must(1)
    finally:
        back(line)
    assert time.monotonic() - began < 120
    rows = error_of(ran)
    assert rows[0] == "error: `line` was not brought to its spec on 1 host"
    assert re.match(r"  h2: (its ssh connection was lost|there is no ssh connection)", rows[1]), ran.err
    assert rows[2].startswith("hint: ")
    if during == MOMENTS[0]:
        assert "create venv /opt/pdctl/venvs/proxy-" in ran.err  # the other host was finished
    converges(line)


def test_a_link_cut_in_the_middle_of_a_file_leaves_no_part_of_it(line: Line) -> None:
    running, part, whole = copying(line, "h2")
    unplug(line)
    try:
        size = part.stat().st_size
        ran = ended(running).must(1)
    finally:
        back(line)
    assert 0 < size < whole
    rows = error_of(ran)
    assert "no ssh connection to it for its work (`Copy wheels and other bundle files" in rows[1], ran.err
    assert line.inside("ls /opt/pdctl/bundle/wheels 2>/dev/null || true", "h2").split() == []
    converges(line)
    assert line.inside("ls -d /var/tmp/pdctl-* /home/ops/.ansible 2>/dev/null || true", "h2") == ""
    line.inside(f"test $(stat -c %s /opt/pdctl/bundle/wheels/{part.name}) = {whole}", "h2")


def back(line: Line) -> None:
    """The host answers again, whatever happened to it; what runs there is what systemd started."""
    line.lab.uncut("h2")
    line.lab.boot("h2")


def error_of(ran: Ran) -> list[str]:
    return ran.err[ran.err.index("error: ") :].splitlines()


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
        wait_for(running, lambda: "decoder-0" in changed(lives, line.lives()))
        line.lab.cut("h1")
        assert "start" in ended(running).must(1).err
    finally:
        line.lab.uncut("h1")
    assert changed(lives, line.lives()) == {"decoder-0"}
    peer = "its peer decoder-0 restarts, and LMCache never renews a peer"
    assert [(row["instance"], row["causes"]) for row in line.diff()["restarts"]] == [("prefiller-0", [peer])]
    converges(line)
    assert changed(lives, line.lives()) == {"decoder-0", "prefiller-0"}
