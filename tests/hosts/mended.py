"""What tests that break a line need afterwards: the next apply converges and leaves nothing behind."""

from __future__ import annotations

from tests.hosts.line import HOSTS, RECORD, Line
from tests.hosts.plays import inside

LEFT = r"-name '*.pdctl-new' -o -name '.pdctl-build' -o -name '*.new' -o -name '*.old'"


def leftovers(line: Line) -> str:
    """Files that were being written, and work that the record calls unfinished."""
    found = ""
    for host in HOSTS:  # the folders of systemd and apt hold our files too
        found += inside(line.lab, host, f"find /etc /opt/pdctl /var/lib/pdctl -xdev \\( {LEFT} \\)")
        found += inside(line.lab, host, f"grep -A3 '\"pending\": \\[$' {RECORD} || true")
    return found


def converges(line: Line) -> None:
    """The same command again finishes what is left, and leaves nothing on the way."""
    line.apply()
    assert line.diff()["empty"] and leftovers(line) == ""
