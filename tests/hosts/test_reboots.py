"""Reboots that pdctl carries out: drained, one host after the other, looked at, and never twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from tests.hosts.line import HOSTS, RECORD, Line, soak
from tests.hosts.load import load
from tests.hosts.midway import ended, wait_for
from tests.hosts.rebooting import boots, delay, loaded, on_disk, rebooting_hosts, write
from tests.hosts.vendors import NEWER, PINNED
from tests.labs import until

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="makes packages with dpkg-deb"),
]
FRONT = "198.18.0.10:9100"
OLD, NEW = (version.split("-")[0] for version in (PINNED, NEWER))
ON_H1 = {"prefiller-0", "decoder-1", "proxy"}
ALL = {*ON_H1, "prefiller-1", "decoder-0"}
DRIVER = "nvidia-driver-580-server-open"


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """Fresh hosts whose kernel has nouveau, as most do."""
    with rebooting_hosts(tmp_path_factory) as line:
        for host in HOSTS:
            line.inside("touch /etc/has-nouveau", host)
            line.lab.reboot(host)
        yield line


def at(line: Line, driver: str) -> None:
    """All runs on this driver. Nothing is done when it does, as after most of the tests before."""
    delay(line, "h2", 0)
    write(line, driver)
    line.apply("--allow-reboot", "--allow-downgrades", "--no-verify")


def settled(line: Line) -> bool:
    """Nothing is left to do, and nothing is done or rebooted."""
    before = [boots(line, host) for host in HOSTS]
    done = line.apply("--allow-reboot", "--no-verify", "--json").json["did"]
    return not done and line.diff()["empty"] and before == [boots(line, host) for host in HOSTS]


def test_nouveau_is_gone_after_a_first_apply_and_a_host_that_stays_away_keeps_no_other(line: Line) -> None:
    """Nobody serves yet: both reboot at once. One is not back in time, the other starts its engines; once it
    is back the next apply goes on, and does not reboot it again."""
    write(line, rollout={"reboot_timeout_s": 10})
    line.apply("--no-verify", "--layer", "base", "--layer", "packages")
    plan = line.diff()
    assert [step["name"] for step in plan["steps"]] == ["put", "proxy"] and "nouveau" in str(plan["foreign"])
    assert {row["package"] for row in plan["reboots"]} == {"nouveau"}
    assert loaded(line, "h1") == "" and on_disk(line, "h1") == PINNED
    delay(line, "h2", 600)
    ran = line.pdctl("apply", "--yes", "--no-verify", "--allow-reboot").must(1)
    assert "h2: it was not back within 10 s after its reboot" in ran.err
    assert "once it is back, the next apply goes on with it" in ran.err
    assert loaded(line, "h1") == OLD and lives_of_h1(line) == ON_H1
    line.lab.poweroff("h2")
    delay(line, "h2", 0)
    line.lab.boot("h2")
    count = boots(line, "h2")
    line.apply("--allow-reboot")
    assert loaded(line, "h2") == OLD and set(line.lives()) == ALL and boots(line, "h2") == count
    assert settled(line)


def lives_of_h1(line: Line) -> set[str]:
    """The other host is off."""
    text = line.inside("systemctl list-units --plain --no-legend --state=active 'pdctl-line-*'")
    names = [row.split()[0] for row in text.splitlines()]
    return {name.removeprefix("pdctl-line-").removesuffix(".service") for name in names}


def test_a_driver_goes_up_under_load_and_no_request_fails(line: Line) -> None:
    at(line, PINNED)
    before = {host: boots(line, host) for host in HOSTS}
    write(line, NEWER)
    ran = line.pdctl("apply", "--yes", "--no-verify").must()
    assert f"h1 waits for a reboot ({DRIVER} {OLD} -> {NEW}): `pdctl apply --allow-reboot`" in ran.err
    assert on_disk(line, "h1") == on_disk(line, "h2") == PINNED
    assert not line.diff()["empty"]
    line.apply("--allow-reboot", "--host", "h1", "--no-verify")
    assert (loaded(line, "h1"), loaded(line, "h2")) == (NEW, OLD)
    with load(line.lab, "h1", FRONT) as served:
        line.apply("--allow-reboot", "--no-verify")
    print(f"driver of h2: {served.summary()}")
    assert not served.failed, served.failed[0]
    assert loaded(line, "h2") == NEW and on_disk(line, "h2") == NEWER
    assert settled(line)
    assert {host: boots(line, host) - count for host, count in before.items()} == {"h1": 1, "h2": 1}


def test_an_apply_killed_while_a_host_reboots_is_gone_on_with_and_an_older_driver_needs_consent(
    line: Line,
) -> None:
    at(line, NEWER)
    write(line)
    ran = line.pdctl("apply", "--yes", "--allow-reboot").must(1)
    assert f"{DRIVER} {NEWER} -> {PINNED}" in ran.err and "nothing was changed" in ran.err
    before = {host: boots(line, host) for host in HOSTS}
    delay(line, "h2", 8)
    running = line.start("apply", "--yes", "--allow-reboot", "--allow-downgrades", "--no-verify")
    wait_for(running, lambda: asked(line))
    running.kill()
    ended(running)
    until(lambda: boots(line, "h2") > before["h2"], 90)
    line.lab.boot("h2")
    plan = line.diff()
    assert {row["instance"] for row in plan["changes"] if row["host"] == "h2"} == {"prefiller-1", "decoder-0"}
    assert [row["host"] for row in plan["reboots"]] == ["h1"]
    line.apply("--allow-reboot", "--allow-downgrades")
    assert loaded(line, "h1") == loaded(line, "h2") == OLD and set(line.lives()) == ALL
    assert settled(line)
    assert {host: boots(line, host) - count for host, count in before.items()} == {"h1": 1, "h2": 1}


def asked(line: Line) -> bool:
    record = line.lab.paths.root("h2") / RECORD.lstrip("/")
    return "reboot" in json.loads(record.read_text())


def test_a_host_whose_next_kernel_has_no_driver_is_not_rebooted(line: Line) -> None:
    at(line, PINNED)
    kernel = "99.0.0-1-generic"
    made = f"mkdir -p /lib/modules/{kernel}; touch /boot/vmlinuz-{kernel}"
    line.inside(made, "h2")
    before = boots(line, "h2")
    write(line, NEWER)
    try:
        ran = line.pdctl("apply", "--yes", "--no-verify", "--allow-reboot", "--host", "h2").must(1)
    finally:
        line.inside(f"rm -r /boot/vmlinuz-{kernel} /lib/modules/{kernel}", "h2")
    assert "error: some hosts were not rebooted" in ran.err
    assert f"h2: it needs a reboot and gets none: kernel {kernel} boots next" in ran.err
    assert f"apt-get install linux-headers-{kernel}, then dkms autoinstall -k {kernel}" in ran.err
    assert loaded(line, "h2") == OLD and on_disk(line, "h2") == PINNED
    assert set(line.lives()) == ALL and boots(line, "h2") == before


@soak
def test_a_module_that_does_not_load_stops_the_rollout_and_asks_for_no_second_reboot(line: Line) -> None:
    at(line, PINNED)
    write(line, NEWER)
    line.inside("touch /etc/refuses-nvidia", "h2")
    before = {host: boots(line, host) for host in HOSTS}
    ran = line.pdctl("apply", "--yes", "--no-verify", "--allow-reboot").must(1)
    assert f"h2: it has rebooted, and no nvidia module is loaded, not {NEW}" in ran.err
    assert set(line.lives()) == ON_H1 and loaded(line, "h1") == OLD
    ran = line.pdctl("apply", "--yes", "--no-verify", "--allow-reboot").must(1)
    assert "it has rebooted, and no nvidia module is loaded" in ran.err and set(line.lives()) == ON_H1
    assert {host: boots(line, host) - count for host, count in before.items()} == {"h1": 0, "h2": 1}
    line.inside("rm /etc/refuses-nvidia", "h2")
    line.lab.reboot("h2")
    line.apply("--allow-reboot")
    assert loaded(line, "h1") == loaded(line, "h2") == NEW and settled(line)


@soak
def test_a_rollback_takes_the_driver_back_the_same_way(line: Line) -> None:
    at(line, PINNED)
    was = json.loads(line.pdctl("history", "--json").must().out)["generations"][0]["number"]
    write(line, NEWER)
    line.apply("--allow-reboot", "--no-verify")
    ran = line.pdctl("rollback", str(was), "--yes").must(1)
    assert f"is installed as {NEWER}; pdctl rollback --allow-downgrades takes it back" in ran.err
    line.pdctl("rollback", str(was), "--yes", "--allow-downgrades", "--allow-reboot", timeout=300).must()
    assert loaded(line, "h1") == loaded(line, "h2") == OLD and set(line.lives()) == ALL
