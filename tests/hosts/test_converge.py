"""The playbooks on real hosts: all of it put, drift repaired and nothing else touched."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.hosts.cluster import CONFIG, SECRETS, TOKEN, VENV, Cluster, cluster_on_hosts, main_pids, unit_name
from tests.hosts.plays import BASE, inventory_of

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_on_hosts(tmp_path_factory) as hosts:
        yield hosts


@pytest.fixture
def cluster(hosts: Cluster) -> Cluster:
    return hosts.ready()


def test_the_second_apply_changes_nothing_and_touches_no_process(cluster: Cluster) -> None:
    pids = {host: main_pids(cluster, host) for host in ("h1", "h2")}
    record = cluster.inside(f"cat {BASE['record']}")
    run = cluster.apply()
    assert run.status == 0 and run.did("h1") == run.did("h2") == [], run.output
    assert "changed=1" not in run.output
    assert {host: main_pids(cluster, host) for host in ("h1", "h2")} == pids
    assert cluster.inside(f"cat {BASE['record']}") == record


def test_bytes_arrive_as_they_are_and_the_environment_works(cluster: Cluster) -> None:
    assert cluster.inside(f"cat {CONFIG}/engine.yaml") == "text: '{{ 7 * 7 }}'\n"
    assert cluster.inside(f"{VENV}/bin/python -c 'import idna; print(idna.__version__)'") == "3.10\n"
    as_service = f"runuser -u pdctl -- {VENV}/bin/python -c 'import idna' && ls /opt/pdctl/venvs -A"
    assert cluster.inside(as_service) == "web-d1\n"


def test_a_secret_is_in_its_one_file_and_nowhere_else(cluster: Cluster) -> None:
    cluster.inside(f"rm {SECRETS}")
    run = cluster.apply("-vvv", "--diff")
    assert run.status == 0 and "Put secret files" in run.output
    inventory = json.dumps(inventory_of(cluster.lab, cluster.variables()))
    record = cluster.inside(f"cat {BASE['record']}")
    journal = cluster.inside("journalctl --no-pager; cat /proc/*/cmdline")
    for text in (run.output, inventory, record, journal):
        assert TOKEN not in text
    search = f"grep -rlF {TOKEN} /etc /opt /var /home /root /run /tmp 2>/dev/null || true"
    assert cluster.inside(search).split() == [SECRETS]
    assert cluster.inside(f"stat -c '%U %a' {SECRETS}") == "root 600\n"


def test_a_secret_that_the_controller_lacks_is_named(cluster: Cluster) -> None:
    run = cluster.apply(token="PDCTL_OTHER_TOKEN")
    assert run.status != 0
    assert "HF_TOKEN: the environment variable PDCTL_TEST_TOKEN is not set" in run.output


DRIFT = {
    "an edited file": (
        f"echo '# by hand' >> {CONFIG}/engine.yaml",
        [f"update file {CONFIG}/engine.yaml: content"],
        set(),
    ),
    "a file of another mode": (
        f"chmod 644 {SECRETS}",
        [],  # what a task with secrets did is hidden
        set(),
    ),
    "a stopped unit": (
        f"systemctl stop {unit_name('decoder-0')}",
        [f"start {unit_name('decoder-0')}: it was inactive"],
        {"decoder-0"},
    ),
    "a killed process": (
        f"kill -9 $(systemctl show --value --property MainPID {unit_name('decoder-0')}); "
        f"until systemctl is-failed -q {unit_name('decoder-0')}; do sleep 0.05; done",
        [f"start {unit_name('decoder-0')}: it was failed"],
        {"decoder-0"},
    ),
    "another environment": (
        f"cd /etc/systemd/system; mkdir {unit_name('decoder-0')}.d; "
        f"printf '[Service]\\nEnvironment=DEBUG=1\\n' > {unit_name('decoder-0')}.d/x.conf; "
        f"systemctl daemon-reload; systemctl restart {unit_name('decoder-0')}",
        [
            f"restart {unit_name('decoder-0')}: environment: DEBUG added; "
            f"drop-in /etc/systemd/system/{unit_name('decoder-0')}.d/x.conf",
            f"remove drop-in /etc/systemd/system/{unit_name('decoder-0')}.d/x.conf",
        ],
        {"decoder-0"},
    ),
    "a forgotten daemon-reload": (
        f"touch -d tomorrow /etc/systemd/system/{unit_name('decoder-0')}",
        [f"reload {unit_name('decoder-0')}: needs daemon-reload"],
        set(),
    ),
    "a disabled unit": (
        f"systemctl disable -q {unit_name('decoder-0')}",
        [f"enable {unit_name('decoder-0')}: enabled no -> yes"],
        set(),
    ),
    "a masked unit": (
        f"ln -sf /dev/null /etc/systemd/system/{unit_name('decoder-0')}; systemctl daemon-reload",
        [
            f"update file /etc/systemd/system/{unit_name('decoder-0')}: content; mode 0777 -> 0644",
            f"restart {unit_name('decoder-0')}: active masked -> active; needs daemon-reload",
        ],
        {"decoder-0"},
    ),
    "a file missing in an environment": (
        f"rm {VENV}/lib/python3.11/site-packages/idna/core.py",
        [f"update venv {VENV}: lib/python3.11/site-packages/idna/core.py"],
        set(),
    ),
    "a removed user": ("systemctl stop 'pdctl-*' && userdel pdctl", None, {"decoder-0", "decoder-1"}),
}


@pytest.mark.parametrize("what", sorted(DRIFT))
def test_drift_is_repaired_and_no_other_process_restarted(cluster: Cluster, what: str) -> None:
    script, expected, restarted = DRIFT[what]
    pids = main_pids(cluster, "h1")
    cluster.inside(script)
    run = cluster.apply()
    assert run.status == 0, run.output
    if expected is not None:
        assert run.did("h1") == expected
    assert run.did("h2") == []
    after = main_pids(cluster, "h1")
    assert {name for name in pids if after[name] != pids[name]} == {unit_name(i) for i in restarted}
    assert cluster.apply().did("h1") == []


def test_check_mode_tells_the_same_and_does_nothing(cluster: Cluster) -> None:
    cluster.inside(f"echo x >> {CONFIG}/engine.yaml; systemctl stop {unit_name('decoder-1')}")
    run = cluster.apply("-v", "--check")
    assert run.status == 0 and len(run.did("h1")) == 2
    assert run.did("h1") == cluster.apply().did("h1")


def test_a_new_revision_restarts_its_unit_alone(cluster: Cluster) -> None:
    pids = {**main_pids(cluster, "h1"), **main_pids(cluster, "h2")}
    run = cluster.apply(**{"decoder-1": {"revision": "r2"}})
    assert run.status == 0
    words = "runs with an older configuration; needs daemon-reload"
    assert run.did("h1")[1:] == [f"restart {unit_name('decoder-1')}: {words}"]
    after = {**main_pids(cluster, "h1"), **main_pids(cluster, "h2")}
    assert [name for name in pids if after[name] != pids[name]] == [unit_name("decoder-1")]


def test_a_restart_ordered_by_the_plan_is_carried_out(cluster: Cluster) -> None:
    pids = main_pids(cluster, "h2")
    run = cluster.apply(**{"prefiller-0": {"restart": True}})
    assert run.did("h2") == [f"restart {unit_name('prefiller-0')}: what it works with was restarted"]
    assert main_pids(cluster, "h2")[unit_name("prefiller-0")] != pids[unit_name("prefiller-0")]
