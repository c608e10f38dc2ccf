"""Engines that do not come up, or do not stay up: told with their journal while the others serve."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.hosts.line import CONFIG, PLACES, UNITS, Line, changed, soak, unit
from tests.hosts.mended import converges

pytestmark = pytest.mark.hosts

# Kills the engine as the kernel does when memory runs out, each time that it has served for a while; only one
# that was started as it is to be from now on.
FLAPPER = """
import os, subprocess, time, urllib.request
show = ["systemctl", "show", "--value", "-p", "MainPID", "{unit}"]
while True:
    pid = int(subprocess.check_output(show))
    try:
        if b"NCCL_DEBUG=INFO" in open(f"/proc/{{pid}}/environ", "rb").read():
            urllib.request.urlopen("http://{address}/health", timeout=1).close()
            time.sleep({serves_s})
            os.kill(pid, 9)
    except OSError:
        time.sleep(0.05)
"""
CHANGED = {"NCCL_DEBUG": "INFO"}


@contextmanager
def flapping(line: Line, instance: str, address: str, serves_s: float) -> Iterator[None]:
    """From its next start on, and as long as the block lasts."""
    host = PLACES[instance]
    script = FLAPPER.format(unit=unit(instance), address=address, serves_s=serves_s)
    line.inside(f"cat > /run/flapper.py <<'END'\n{script}\nEND", host)
    line.inside("systemd-run --quiet --unit=flapper python3 /run/flapper.py", host)
    try:
        yield
    finally:
        line.inside("systemctl stop flapper; rm /run/flapper.py", host)


def error_of(text: str) -> list[str]:
    return text[text.index("error: ") :].splitlines()


@pytest.mark.parametrize("serves_s", [0.1, pytest.param(3, marks=soak)])
def test_an_engine_that_flaps_is_not_taken_for_healthy(line: Line, serves_s: float) -> None:
    """It starts, answers, and dies again and again: found at the gate, by the proxy or by the proof."""
    lives = line.lives()
    line.write(decoders={"count": 2, "env": CHANGED})
    with flapping(line, "decoder-1", "198.18.0.10:7200", serves_s):
        ran = line.pdctl("apply", "--yes").must(1)
        told = line.pdctl("status", "--json").must(1).json
    assert "decoder-1" in "\n".join(error_of(ran.err)) and "hint: " in ran.err
    rows = {row["instance"]: row for row in told["instances"]}
    assert rows["decoder-0"]["healthy"] and rows["prefiller-0"]["healthy"] and rows["proxy"]["healthy"]
    assert not changed(lives, line.lives()) & {"prefiller-0", "proxy"}
    converges(line)


def test_an_engine_that_never_becomes_healthy_is_given_up_after_its_load_time(line: Line) -> None:
    lives = line.lives()
    endless = {"kind": "simulator", "simulator": {"start_s": 600}}
    line.write({"engine": endless}, load_timeout_s=10)
    ran = line.pdctl("apply", "--yes").must(1)
    rows = error_of(ran.err)
    (found,) = (row for row in rows if "not healthy within 10 s" in row)
    assert found.startswith("  h") and ran.err.count("the end of its journal") == 1
    assert len(changed(lives, line.lives())) == 1  # the others were left as they were
    line.write(load_timeout_s=10)
    converges(line)


def test_a_health_gate_that_failed_is_not_forgotten(line: Line) -> None:
    """It runs as wanted, so nothing differs: the next plan asks its health again, and restarts nothing."""
    slow = {"engine": {"kind": "simulator", "simulator": {"start_s": 25}}}
    line.write(slow, decoders={"count": 1}, load_timeout_s=10)
    error = error_of(line.pdctl("apply", "--yes").must(1).err)
    assert not any("go on as they are" in row and "decoder-0" in row for row in error), error
    plan = line.diff()
    assert not [row for row in plan["changes"] if row["id"] == f"unit:{unit('decoder-0')}"]
    assert {row["what"][0] for row in plan["drift"]} == {
        "did not become healthy in 10 s; apply asks it again"
    }
    assert line.pdctl("history", "--json").must().json["generations"][0]["state"] == "failed"

    lives = line.lives()
    deadline = time.monotonic() + 120
    while line.pdctl("apply", "--yes", "--no-verify").status:  # the gate is 10 s, the start 25
        assert time.monotonic() < deadline
    assert "decoder-0" not in changed(lives, line.lives()) and line.diff()["empty"]
    assert line.pdctl("history", "--json").must().json["generations"][0]["state"] == "complete"


def test_what_a_failure_kept_from_an_engine_is_whole_in_the_next_plan_and_no_drift(line: Line) -> None:
    """The prefiller's turn comes after the decoders': until then its files are those that it runs with."""
    lives = line.lives()
    broken = {"count": 2, "extra_args": ["--no-such-flag"]}
    line.write(decoders=broken, prefillers={"count": 1, "env": CHANGED})
    ran = line.pdctl("apply", "--yes").must(1)
    rows = error_of(ran.err)
    assert any("unrecognized arguments: --no-such-flag" in row for row in rows), ran.err
    assert rows[0].startswith("error: `line` was not brought to its spec on 1 host; it stopped in step `")
    assert not changed(lives, line.lives()) & {"prefiller-0", "proxy"}

    line.write(prefillers={"count": 1, "env": CHANGED})
    plan = line.diff()
    of_it = {row["id"]: row["why"] for row in plan["changes"] if "prefiller-0" in row["id"]}
    file = f"{CONFIG}/prefiller-0.env"
    assert set(of_it) == {
        f"file:{file}",
        f"file:{UNITS}/{unit('prefiller-0')}",
        f"unit:{unit('prefiller-0')}",
    }
    assert not [row for row in plan["drift"] if "prefiller-0" in row["id"]]
    (restart,) = (row for row in plan["restarts"] if row["instance"] == "prefiller-0")
    assert restart["causes"] == [file]
    done = line.apply("--json").json["did"]["h1"]
    assert any(row.startswith(f"restart {unit('prefiller-0')}: runs with an older") for row in done)
    assert "prefiller-0" in changed(lives, line.lives()) and line.diff()["empty"]
    environment = line.inside(f"tr '\\0' '\\n' < /proc/{line.lives()['prefiller-0'].pid}/environ")
    assert "NCCL_DEBUG=INFO" in environment.splitlines()
