"""`pdctl doctor` on a real host: clean when it is well, and what is broken told with its next step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pdctl.bundle.collect import Runtime, collect, default_folder
from pdctl.lab import Bind
from tests.hosts.clocks import elsewhen
from tests.hosts.line import SPEC, Line, Ran
from tests.labs import lab_hosts

pytestmark = pytest.mark.hosts

GPUS: dict[str, Any] = {
    "cluster": "gpus",
    "hosts": [
        {
            "name": "h1",
            "address": "198.18.0.10",
            "os": "debian-12",
            "gpus": {"count": 2, "model": "H100-SXM-80GB"},
        }
    ],
    "stack": "article-2025",
    "model": {"id": "openai/gpt-oss-20b"},
    "serving": {"prefillers": {"count": 1}, "decoders": {"count": 1}},
}


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    bundle = default_folder()
    collect([Runtime("simulator", "3.11"), Runtime("proxy", "3.11")], bundle)
    with lab_hosts(1, tmp_path_factory, [Bind(str(bundle), "/opt/pdctl/bundle")]) as lab:
        found = Line(lab, tmp_path_factory.mktemp("doctor"))
        found.write({"hosts": SPEC["hosts"][:1]})
        yield found


@contextmanager
def broken(line: Line, cause: str, undo: str) -> Iterator[None]:
    line.inside(cause)
    try:
        yield
    finally:
        line.inside(undo)


def checks(ran: Ran) -> dict[str, Any]:
    (host,) = ran.json["hosts"]
    return {row["check"]: row for row in host["checks"]}


def rules(ran: Ran) -> list[str]:
    return [found["rule"] for row in checks(ran).values() for found in row["findings"]]


def test_a_healthy_host_is_clean_before_and_after_an_apply(line: Line) -> None:
    for _ in range(2):
        ran = line.pdctl("doctor").must(0)
        assert "1 host: nothing is wrong" in ran.out and ran.err == "", ran
        assert "not needed (no engine here uses GPUs): " in ran.out
        found = checks(line.pdctl("doctor", "--json").must(0))
        assert {row["status"] for row in found.values()} == {"ok", "not_needed"}, found
        line.apply("--no-verify")


def test_a_taken_port_names_its_process(line: Line) -> None:
    line.inside("systemctl stop pdctl-line-decoder-0")
    held = "systemd-run -q --unit taken python3 -m http.server 7200"
    with broken(line, held, "systemctl stop taken; systemctl start pdctl-line-decoder-0"):
        line.inside("until ss -ltn | grep -q :7200; do sleep 0.1; done")
        ran = line.pdctl("doctor").must(1)
    (told,) = [row for row in ran.out.splitlines() if "[FACT007]" in row]
    assert "cluster.yaml:" in told and "hosts[0]: h1 has others on our ports: port 7200 (decoder-0)" in told
    assert "is held by python3, pid " in told and "taken.service" in told
    assert "hint: end that process, or choose another port" in ran.out


def test_errors_stop_an_apply_before_any_change_and_warnings_are_told(line: Line) -> None:
    line.write({"hosts": SPEC["hosts"][:1]}, decoders={"count": 3})
    tree = "find /etc/pdctl /var/lib/pdctl /opt/pdctl/venvs -newer /etc/hostname -printf '%p %T@\\n' | sort"
    held = "systemd-run -q --unit taken python3 -m http.server 7202"
    with broken(line, held, "systemctl stop taken"):
        line.inside("until ss -ltn | grep -q :7202; do sleep 0.1; done")
        before = line.inside(tree)
        ran = line.pdctl("apply", "--yes").must(1)
        assert line.inside(tree) == before
        whole = line.pdctl("apply", "--yes", "--json").must(1).json
    assert "error: `line` would not work on its hosts, and nothing was changed" in ran.err
    assert "port 7202 (decoder-2) is held by python3, pid " in ran.err and "[FACT007]" in ran.err
    assert whole["did"] == {} and [error["rule"] for error in whole["errors"]] == ["FACT007"]
    ran = line.apply("--no-verify")
    assert ran.err.count("warning: ") == 0
    line.write({"hosts": SPEC["hosts"][:1]})
    line.apply("--no-verify")


def test_a_full_disk_is_told(line: Line) -> None:
    with broken(line, "mount -t tmpfs -o size=1m tmpfs /opt", "umount /opt"):
        ran = line.pdctl("doctor", "--json").must(1)
    assert rules(ran) == ["FACT009"] and checks(ran)["disk"]["found"] == "0.0 GiB free in /opt/pdctl"


def test_a_clock_that_is_off_is_a_warning(line: Line) -> None:
    ran = line.pdctl("doctor", "--json", env=elsewhen("+3d")).must(2)
    assert rules(ran) == ["FACT010"] and checks(ran)["clock"]["found"].startswith("-259")


def test_a_host_that_does_not_answer_is_an_error_and_an_unknown_one_too(line: Line) -> None:
    line.lab.cut("h1")
    try:
        ran = line.pdctl("doctor").must(1)
    finally:
        line.lab.uncut("h1")
    assert "h1: pdctl lab: connect to 198.18.0.10 port 22: " in ran.out and "[FACT001]" in ran.out
    ran = line.pdctl("doctor", "--host", "h9").must(1)
    assert "there is no host `h9` in the spec" in ran.err and "there are: h1" in ran.err
