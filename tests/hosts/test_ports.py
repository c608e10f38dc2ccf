"""Ports that others hold: swapped within a cluster, or taken by another cluster on the same hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.line import HOSTS, Line, line_on_hosts, unit
from tests.hosts.plays import inside

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with line_on_hosts(tmp_path_factory) as found:
        found.apply()
        yield found


def test_roles_swap_their_ports_in_one_apply(line: Line) -> None:
    line.write(ports={"prefiller": 7200, "decoder": 7100})
    ran = line.apply("--json")
    assert f"stop {unit('prefiller-0')}: others need what it holds" in ran.json["did"]["h1"]
    assert ran.json["proof"]["ok"] and line.diff()["empty"]
    line.write()
    line.apply()
    assert line.diff()["empty"]


def test_a_second_cluster_on_taken_ports_is_told_who_holds_them_and_the_first_goes_on(line: Line) -> None:
    lives = line.lives()
    line.write({"cluster": "second"})
    ran = line.pdctl("apply", "--yes", "--no-verify").must(1)
    assert "error: `second` would not work on its hosts, and nothing was changed" in ran.err
    assert "port 7200 (decoder-0) is held by python, pid " in ran.err
    assert f", {unit('decoder-0')} [FACT007]" in ran.err
    for host in HOSTS:
        inside(line.lab, host, "test ! -e /etc/pdctl/second -a ! -e /var/lib/pdctl/second")
    line.write({"cluster": "second", "suppress": [{"rule": "FACT007", "reason": "to see what comes of it"}]})
    ran = line.pdctl("apply", "--yes", "--no-verify").must(1)
    assert (
        f"pdctl-second-decoder-0.service: port 7200 is held by {unit('decoder-0')} (pid " in ran.out + ran.err
    )
    status = line.pdctl("status", "--json").must(1).json
    assert not any(row["healthy"] for row in status["instances"])
    line.pdctl("destroy", "--yes").must()
    for host in HOSTS:
        assert inside(line.lab, host, "ls -d /etc/pdctl/second 2>/dev/null || true").strip() == ""
    line.write()
    assert line.lives() == lives and line.diff()["empty"]
