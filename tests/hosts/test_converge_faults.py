"""What goes wrong on real hosts: told clearly, nothing half done, mended by the next run; all can go."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.hosts.cluster import CONFIG, TOKEN, VENV, Cluster, cluster_on_hosts, main_pids, unit_name
from tests.hosts.plays import BASE, CLUSTER, file, start

pytestmark = [
    pytest.mark.hosts,
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_on_hosts(tmp_path_factory) as hosts:
        yield hosts


@pytest.fixture
def cluster(hosts: Cluster) -> Cluster:
    return hosts.ready()


def test_an_engine_that_dies_stops_the_roles_after_it_and_shows_its_journal(cluster: Cluster) -> None:
    pids = main_pids(cluster, "h2")
    argv = ["/usr/bin/python3", "-c", 'print("cannot open model"); raise SystemExit(3)']
    broken = {"argv": argv, "revision": "r3"}
    run = cluster.apply(**{"decoder-0": broken, "prefiller-0": {"revision": "r3"}})
    failure = run.failure("h1")
    assert run.status != 0
    assert failure["msg"] == f"{unit_name('decoder-0')}: it has ended (failed, result exit-code)"
    assert "cannot open model" in failure["journal"][unit_name("decoder-0")]
    assert main_pids(cluster, "h2") == pids


def test_an_engine_that_dies_again_and_again_is_not_waited_for(cluster: Cluster) -> None:
    argv = ["/usr/bin/python3", "-c", "raise SystemExit(3)"]
    broken = {"argv": argv, "revision": "r4", "restart_policy": "on-failure", "health_s": 300}
    begun = time.monotonic()
    run = cluster.apply(**{"decoder-0": broken})
    assert run.failure("h1")["msg"].startswith(f"{unit_name('decoder-0')}: it ended again and again")
    assert time.monotonic() - begun < 30


def test_an_engine_that_never_answers_is_given_up_after_its_time(cluster: Cluster) -> None:
    argv = ["/usr/bin/python3", "-c", "import time; time.sleep(600)"]
    run = cluster.apply(**{"decoder-0": {"argv": argv, "revision": "r5", "health_s": 2}})
    message = run.failure("h1")["msg"]
    assert f"{unit_name('decoder-0')}: not healthy within 2 s: http://127.0.0.1:7200/ does not" in message
    assert "; still loading, 0.0 GB read" in message


def test_an_engine_that_may_lock_too_little_memory_is_not_taken_for_healthy(cluster: Cluster) -> None:
    """limits.conf says unlimited, as it may: no service gets its limits there."""
    conf = "/etc/security/limits.d/memory.conf"
    cluster.inside(f"mkdir -p /etc/security/limits.d; echo '* - memlock unlimited' > {conf}")
    asked = {"limits": [["Max locked memory", "unlimited"]], "revision": "r7"}
    run = cluster.apply(**{"decoder-0": {**asked, "settings": "LimitMEMLOCK=65536"}})
    cluster.inside(f"rm {conf}")
    message = run.failure("h1")["msg"]
    assert f"{unit_name('decoder-0')}: Max locked memory is 65536, it needs unlimited: " in message
    enough = {"limits": [["Max locked memory", "65536"]], "revision": "r8", "settings": "LimitMEMLOCK=65536"}
    assert cluster.apply(**{"decoder-0": enough}).status == 0


FULL = {
    CONFIG: ("16k", f"{CONFIG}/large was not written: No space left on device; what was there"),
    "/opt/pdctl/venvs": ("8m", "Python environments in /opt/pdctl/venvs: No space left on device"),
    f"/var/lib/pdctl/{CLUSTER}": ("4k", f"{BASE['record']} was not written: No space left on device"),
}


@pytest.mark.parametrize("folder", sorted(FULL))
def test_a_full_disk_is_told_nothing_is_half_done_and_the_next_run_converges(
    cluster: Cluster, folder: str
) -> None:
    size, message = FULL[folder]
    large = file(f"{CONFIG}/large", "x" * 100_000)
    cluster.inside(
        f"rm -f {CONFIG}/large; rm -rf {VENV}; mount -t tmpfs -o size={size},mode=755 tmpfs {folder}; "
        f"test {size} != 4k || head -c 4096 /dev/zero > {folder}/filler"
    )
    run = cluster.apply(more=[large])
    left = cluster.inside(f"ls -A {folder}; umount {folder}")
    assert run.status != 0 and message in run.failure("h1")["msg"], run.output
    assert "large" not in left and "pdctl" not in left and "web" not in left
    assert cluster.apply(more=[large]).status == 0
    assert cluster.inside(f"wc -c < {CONFIG}/large; ls -A /opt/pdctl/venvs").split() == ["100000", "web-d1"]


KILL_WHILE_BUILDING = """
import os, time
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if "/.pdctl-build/uv" in os.readlink(f"/proc/{pid}/exe"):
                parent = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1]
                os.kill(int(parent), 9)
                os.kill(int(pid), 9)
                print("killed")
                raise SystemExit
        except OSError:
            pass
raise SystemExit("no build was seen")
"""


def kill_while_building(cluster: Cluster) -> None:
    """The module and its installer vanish, as when a host loses power."""
    cluster.inside(f"rm -r {VENV}")
    running = start(cluster.lab, "apply", cluster.variables(), env={"PDCTL_TEST_TOKEN": TOKEN})
    assert cluster.inside(f"python3 -c '{KILL_WHILE_BUILDING}'") == "killed\n"
    output, _ = running.communicate(timeout=60)
    assert running.returncode != 0, output
    assert json.loads(cluster.inside(f"cat {BASE['record']}"))["pending"] != []
    assert ".pdctl-build" in cluster.inside("ls -A /opt/pdctl/venvs")


def test_after_a_kill_midway_the_next_run_converges(cluster: Cluster) -> None:
    kill_while_building(cluster)
    run = cluster.apply()
    assert run.status == 0 and run.did("h1") == [f"create venv {VENV}"], run.output
    assert cluster.inside("ls -A /opt/pdctl/venvs") == "web-d1\n"
    assert cluster.apply().did("h1") == []


def test_after_a_kill_midway_destroy_leaves_nothing(cluster: Cluster) -> None:
    kill_while_building(cluster)
    run = cluster.destroy()
    assert run.status == 0, run.output
    assert cluster.changes() == []


def test_destroy_leaves_the_hosts_as_they_were(cluster: Cluster) -> None:
    assert len(cluster.changes()) > 20
    run = cluster.destroy()
    assert run.status == 0, run.output
    assert cluster.changes() == []
    again = cluster.destroy()
    assert again.status == 0 and again.did("h1") == again.did("h2") == []
