"""A record that was removed by hand: told, refused by destroy, written anew by apply."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.line import CONFIG, HOSTS, RECORD, UNITS, Line, line_on_hosts

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with line_on_hosts(tmp_path_factory) as line:
        yield line


def test_a_lost_record_is_told_and_written_anew_and_destroy_leaves_nothing(line: Line) -> None:
    line.apply("--no-verify")
    assert line.diff()["empty"]
    lives = line.lives()
    line.inside(f"rm {RECORD}", "h2")

    plan = line.diff()
    assert not plan["changes"] and {row["host"] for row in plan["drift"]} == {"h2"}
    refused = line.pdctl("destroy", "--yes").must(1)
    assert "units of `line` run here but there is no record of them" in refused.err
    assert "`pdctl apply` writes the record anew, then destroy" in refused.err
    assert {"decoder-0"} == line.lives().keys()  # h1 is gone, h2 was left alone

    line.apply("--no-verify")
    assert line.diff()["empty"] and line.lives()["decoder-0"] == lives["decoder-0"]
    line.inside(f"rm {RECORD}")
    line.inside(f"sed -i 's/^/# /;q' {CONFIG}/decoder-1.env")  # with a change in between
    line.apply("--no-verify")
    assert line.diff()["empty"]

    line.pdctl("destroy", "--yes").must()
    own = f"/etc/pdctl /var/cache/pdctl /opt/pdctl/venvs {RECORD} {UNITS}/pdctl-line-*"
    for host in HOSTS:
        assert line.inside(f"ls -d {own} 2>/dev/null || true", host) == ""
    assert line.lives() == {}


def test_units_that_nobody_names_are_told(line: Line) -> None:
    line.apply("--no-verify")
    line.inside(f"cp {UNITS}/pdctl-line-decoder-1.service {UNITS}/pdctl-line-decoder-7.service")
    ran = line.pdctl("diff")
    assert "warning: h1: neither the spec nor the record names pdctl-line-decoder-7.service" in ran.err
