"""Reboots that pdctl carries out: drained, one host after the other, looked at, and never twice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.hosts.line import Line
from tests.hosts.load import load
from tests.hosts.rebooting import boots, loaded, on_disk, rebooting_hosts, show, write
from tests.hosts.vendors import NEWER, PINNED

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="makes packages with dpkg-deb"),
]
FRONT = "198.18.0.10:9100"
OLD, NEW = (version.split("-")[0] for version in (PINNED, NEWER))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with rebooting_hosts(tmp_path_factory) as line:
        yield line


def test_nouveau_is_gone_after_the_reboot_of_a_first_apply(hosts: Line) -> None:
    for host in ("h1", "h2"):
        hosts.inside("touch /etc/has-nouveau", host)
        hosts.lab.reboot(host)
    write(hosts)
    ran = hosts.pdctl("apply", "--yes").must()
    assert "h1 waits for a reboot (nouveau loaded -> forbidden), no engine is started there" in ran.err
    assert set(hosts.lives()) == {"proxy"} and on_disk(hosts, "h1") == PINNED
    ran = hosts.pdctl("apply", "--yes", "--allow-reboot", timeout=300).must()
    print(ran.out, ran.err)
    assert boots(hosts, "h1") == boots(hosts, "h2") == 2
    assert loaded(hosts, "h1") == loaded(hosts, "h2") == OLD
    assert len(hosts.lives()) == 5
    assert hosts.apply("--json", "--allow-reboot").json["did"] == {} and hosts.diff()["empty"]
    assert boots(hosts, "h1") == 2


def test_a_driver_goes_up_under_load_and_no_request_fails(hosts: Line) -> None:
    write(hosts)
    hosts.apply("--allow-reboot")
    before = {host: boots(hosts, host) for host in ("h1", "h2")}
    write(hosts, NEWER)
    plan = hosts.diff()
    assert not plan["steps"] or all(step["kind"] == "put" for step in plan["steps"]), show(plan)
    ran = hosts.pdctl("apply", "--yes").must()
    assert f"h1 waits for a reboot (nvidia-driver-580-server-open {OLD} -> {NEW})" in ran.err
    assert on_disk(hosts, "h1") == on_disk(hosts, "h2") == PINNED
    print(hosts.pdctl("diff", "--allow-reboot").out)
    hosts.apply("--allow-reboot", "--host", "h1")
    assert loaded(hosts, "h1") == NEW and loaded(hosts, "h2") == OLD
    with load(hosts.lab, "h1", FRONT) as served:
        ran = hosts.pdctl("apply", "--yes", "--allow-reboot", "--no-verify", timeout=300).must()
    print(ran.out, ran.err, served.summary())
    assert not served.failed, served.failed[0]
    assert loaded(hosts, "h2") == NEW and on_disk(hosts, "h2") == NEWER
    assert hosts.apply("--json", "--allow-reboot").json["did"] == {} and hosts.diff()["empty"]
    assert {host: boots(hosts, host) - count for host, count in before.items()} == {"h1": 1, "h2": 1}
