"""Hosts that are not ready for their engines yet: the units wait, and systemd never gives up on them."""

from __future__ import annotations

import json

import pytest

from tests.desired.rendered import example
from tests.hosts.line import PLACES, Line, unit
from tests.labs import until

pytestmark = pytest.mark.hosts

GPUS = 8
# A unit of ours with nothing but what it waits for before it starts.
WAITING = """\
[Unit]
StartLimitIntervalSec=0
[Service]
Type=exec
ExecStartPre={pre}
ExecStart=/bin/sleep infinity
"""


def test_no_number_of_ends_makes_systemd_give_up_on_an_engine(line: Line) -> None:
    """By default it does so at the sixth start within ten seconds, as the other service shows."""
    host = PLACES["decoder-0"]
    often = "for i in $(seq 8); do systemctl restart {} || exit 1; done"
    line.inside(
        "printf '[Service]\\nExecStart=/bin/sleep infinity\\n' > /run/systemd/system/usual.service", host
    )
    usual = line.lab.exec(host, ["sh", "-c", often.format("usual.service")])
    line.inside(
        "systemctl stop usual; systemctl reset-failed usual; rm /run/systemd/system/usual.service", host
    )
    assert usual.returncode and "usual.service" in usual.stderr

    line.inside(often.format(unit("decoder-0")), host)
    ask = "import urllib.request as r; r.urlopen('http://198.18.0.11:7200/health')"
    until(lambda: line.lab.exec(host, ["python3", "-c", ask]).returncode == 0, timeout=30)
    shown = line.inside(f"systemctl show -P SubState {unit('decoder-0')}", host)
    assert shown.strip() == "running"


def test_an_engine_starts_when_the_last_gpu_of_its_host_has_come(line: Line) -> None:
    """At boot, the kernel's modules may take longer than the network."""
    engine = example("hgx-h100-article").engines["decoder-0"]
    (pre,) = (each for each in engine.setting("Service", "ExecStartPre") if "/dev/nvidia" in each)
    name = "late.service"
    text = json.dumps(WAITING.format(pre=pre))
    line.lab.exec("h1", ["python3", "-c", f"open('/run/systemd/system/{name}', 'w').write({text})"])

    def state() -> str:
        return line.inside(f"systemctl show -P SubState {name}").strip()

    def looks() -> str:
        """The pause between two looks is a process of its own."""
        return line.inside(f"cat /sys/fs/cgroup/system.slice/{name}/cgroup.procs")

    try:
        line.inside(f"touch /dev/nvidiactl /dev/nvidia-uvm; systemctl start --no-block {name}")
        until(lambda: state() == "start-pre", timeout=30)
        line.inside(f"touch /dev/nvidia$(seq -s ' /dev/nvidia' 0 {GPUS - 2})")
        seen = {looks()}
        until(lambda: len(seen) > 2 or seen.add(looks()), timeout=30)
        assert state() == "start-pre"
        line.inside(f"touch /dev/nvidia{GPUS - 1}")
        until(lambda: state() == "running", timeout=30)
    finally:
        line.inside(f"rm -f /dev/nvidia* /run/systemd/system/{name}; systemctl stop {name}")
