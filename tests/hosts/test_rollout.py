"""Changes to running engines under load: no request fails; a canary that fails leaves the rest serving."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hosts.line import PLACES, Line, changed, line_on_hosts, soak, unit
from tests.hosts.load import load
from tests.labs import until

pytestmark = pytest.mark.hosts

FRONT = "198.18.0.10:9100"
TWO = {"prefillers": {"count": 2}}
ENGINES = {"decoder-0", "decoder-1", "prefiller-0", "prefiller-1"}
NEW = {"env": {"NCCL_DEBUG": "INFO"}}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with line_on_hosts(tmp_path_factory) as line:
        yield line


def cluster(line: Line, *, stale: bool = False, decoders: Any = None, prefillers: Any = None) -> None:
    """Two prefillers and two decoders, and what is new about them."""
    engine = {"kind": "simulator", "simulator": {"stale_peers": stale}}
    pools = {"decoders": {"count": 2} | (decoders or {}), "prefillers": {"count": 2} | (prefillers or {})}
    line.write({"engine": engine}, **pools)


def settled(line: Line) -> bool:
    """Nothing is left to do; shown when something is."""
    plan = line.diff()
    if not plan["empty"]:
        print({name: plan[name] for name in ("changes", "drift", "restarts")})
    return bool(plan["empty"])


def kinds(plan: Any) -> list[str]:
    return [step["name"].rsplit("_", 1)[0] for step in plan["steps"]]


@pytest.mark.parametrize("stale", [False, True])
def test_a_change_of_decoders_under_load_fails_no_request(hosts: Line, stale: bool) -> None:
    cluster(hosts, stale=stale)
    hosts.apply()
    lives = hosts.lives()
    cluster(hosts, stale=stale, decoders=NEW)
    assert kinds(hosts.diff()) == ["drain", "restart", "drain", "restart", "undrain"]
    with load(hosts.lab, "h1", FRONT) as served:
        hosts.apply("--no-verify")
    print(f"stale peers {stale}: {served.summary()}")
    assert not served.failed, served.failed[0]
    restarted = ENGINES if stale else {"decoder-0", "decoder-1"}
    assert changed(lives, hosts.lives()) == restarted
    assert settled(hosts)


def test_a_change_of_all_engines_under_load_fails_no_request(hosts: Line) -> None:
    cluster(hosts)
    hosts.apply("--no-verify")
    lives = hosts.lives()
    cluster(hosts, decoders=NEW, prefillers=NEW)
    with load(hosts.lab, "h1", FRONT) as served:
        hosts.apply("--no-verify")
    print(f"all engines: {served.summary()}")
    assert not served.failed, served.failed[0]
    assert changed(lives, hosts.lives()) == ENGINES and settled(hosts)


def test_engines_get_other_ports_under_load_and_no_request_fails(hosts: Line) -> None:
    cluster(hosts)
    hosts.apply("--no-verify")
    cluster(hosts)
    hosts.spec["serving"]["ports"] = {"decoder": 7250, "prefiller": 7150}
    hosts.save()
    lives = hosts.lives()
    with load(hosts.lab, "h1", FRONT) as served:
        hosts.apply("--no-verify")
    print(f"other ports: {served.summary()}")
    assert not served.failed, served.failed[0]
    assert changed(lives, hosts.lives()) == ENGINES and settled(hosts)


@pytest.mark.parametrize("stale", [False, True])
def test_a_canary_that_fails_stops_the_rollout_and_the_next_apply_goes_on(hosts: Line, stale: bool) -> None:
    cluster(hosts, stale=stale)
    hosts.apply("--no-verify")
    lives = hosts.lives()
    cluster(hosts, stale=stale, decoders={"extra_args": ["--no-such-flag"]})
    with load(hosts.lab, "h1", FRONT) as served:
        ran = hosts.pdctl("apply", "--yes", "--no-verify").must(1)
    print(ran.err[ran.err.index("error:") :])
    assert not served.failed, served.failed[0]
    assert "decoder-0" in changed(lives, hosts.lives())
    assert not {"decoder-1", "prefiller-1", "proxy"} & changed(lives, hosts.lives())
    said = ran.err[ran.err.index("error:") :].splitlines()
    assert "it stopped in step `Restart decoder-0" in said[0]
    assert said[1].startswith("  h2: decoder-0: it ended again and again")
    assert said[2] == "    decoder-0, the end of its journal:"
    assert any("unrecognized arguments: --no-such-flag" in row for row in said)
    assert any("decoder-1" in row and "go on as they are" in row for row in said)
    assert "get no requests until" in ran.err or "gets no requests until" in ran.err
    assert "run `pdctl apply` again: it goes on where this ended (" in ran.err
    assert not [row for row in hosts.diff()["drift"] if "proxy" in row["id"]]  # whom pdctl itself has drained
    if not stale:  # prefillers would keep the addresses of its former life
        comes_back_as_it_was(hosts, "decoder-1")
    cluster(hosts, stale=stale, decoders=NEW)
    with load(hosts.lab, "h1", FRONT) as mended:
        hosts.apply("--no-verify")
    print(f"canary failed: {served.summary()}\nmended: {mended.summary()}")
    assert not mended.failed, mended.failed[0]
    assert settled(hosts)


def comes_back_as_it_was(hosts: Line, instance: str) -> None:
    """A crash, and unit files read again, bring up what ran before, not what the canary died of."""
    life = hosts.lives()[instance]
    host = PLACES[instance]
    hosts.inside(f"systemctl daemon-reload; systemctl kill -s KILL {unit(instance)}", host)
    until(lambda: hosts.lives().get(instance, life) != life, timeout=60)
    words = hosts.inside(f"tr '\\0' ' ' < /proc/{hosts.lives()[instance].pid}/cmdline", host)
    assert "--no-such-flag" not in words and "pdctl_simulator" in words, words
    answers = (
        "python3 -c 'import urllib.request as u; u.urlopen(\"http://198.18.0.10:7200/health\", timeout=2)'"
    )
    until(lambda: hosts.lab.exec(host, ["sh", "-c", answers]).returncode == 0, timeout=60)


@pytest.mark.parametrize("stale", [pytest.param(False, marks=soak), True])
def test_a_rollout_that_was_killed_goes_on_under_load_and_fails_no_request(hosts: Line, stale: bool) -> None:
    cluster(hosts, stale=stale)
    hosts.apply("--no-verify")
    lives = hosts.lives()
    cluster(hosts, stale=stale, decoders=NEW)
    with load(hosts.lab, "h1", FRONT) as served:
        running = hosts.start("apply", "--yes", "--no-verify")
        until(lambda: changed(lives, hosts.lives()) or running.poll() is not None, timeout=120)
        running.kill()
        running.communicate(timeout=60)
        assert running.returncode == -signal.SIGKILL, "it has ended before"
        assert changed(lives, hosts.lives()) < ENGINES
        hosts.apply("--no-verify")
    print(f"killed, stale peers {stale}: {served.summary()}")
    assert not served.failed, served.failed[0]
    assert changed(lives, hosts.lives()) == (ENGINES if stale else {"decoder-0", "decoder-1"})
    assert settled(hosts)
