"""A host without ssh whose engines serve: a change under load, and one that they would not follow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.hosts.line import Line, changed, line_on_hosts
from tests.hosts.load import load
from tests.hosts.test_rollout import FRONT, NEW, cluster, settled

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with line_on_hosts(tmp_path_factory) as line:
        yield line


@contextmanager
def dark(line: Line, host: str) -> Iterator[None]:
    """Nobody logs in any more; all else goes on."""
    line.inside("systemctl stop ssh.socket ssh.service 2>/dev/null || systemctl stop ssh.service", host)
    try:
        yield
    finally:
        line.inside("systemctl start ssh.service", host)


def test_engines_out_of_sight_serve_on_while_the_others_restart_and_no_request_fails(hosts: Line) -> None:
    cluster(hosts)
    hosts.apply("--no-verify")
    lives = hosts.lives()
    cluster(hosts, decoders=NEW)
    with dark(hosts, "h2"):
        plan = hosts.pdctl("diff", "--brief").must(1).out
        with load(hosts.lab, "h1", FRONT) as served:
            hosts.pdctl("apply", "--yes", "--no-verify").must(1)
    words = " ".join(plan.split())
    assert "! decoder-0 on h2 was not looked at: unless it serves, nothing is answered until" in words
    assert "no other decoder serves" not in words and "Drain decoder-1" in words
    print(f"h2 out of sight: {served.summary()}")
    assert not served.failed, served.failed[0]
    assert changed(lives, hosts.lives()) == {"decoder-1"}
    hosts.apply("--no-verify")
    assert changed(lives, hosts.lives()) == {"decoder-0", "decoder-1"} and settled(hosts)


def test_what_engines_out_of_sight_would_not_follow_is_refused_before_anything_is_changed(
    hosts: Line,
) -> None:
    cluster(hosts)
    hosts.apply("--no-verify")
    lives = hosts.lives()
    cluster(hosts)
    hosts.spec["serving"]["lmcache"]["chunk_size"] = 64
    hosts.save()
    with dark(hosts, "h2"), load(hosts.lab, "h1", FRONT) as served:
        ran = hosts.pdctl("apply", "--yes", "--no-verify").must(1)
    said = " ".join(ran.err.split())
    assert "chunk_size 32 -> 64: prefillers and decoders must agree on it" in said
    assert "decoder-0 on h2 would not follow decoder-1" in said
    assert "hint: bring h2 back (" in said and "or take decoder-0 and prefiller-1 out of the spec" in said
    assert not served.failed and not changed(lives, hosts.lives())
    hosts.apply("--no-verify")
    assert settled(hosts)
