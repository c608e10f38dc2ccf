"""The playbooks on real hosts: all of it put, drift repaired and nothing else touched, all of it gone."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pdctl.lab import Lab
from tests.hosts.plays import (
    BASE,
    CLUSTER,
    Run,
    directory,
    file,
    inside,
    inventory_of,
    play,
    request,
    snapshot,
    start,
    user,
    web_unit,
)
from tests.labs import lab_hosts

pytestmark = pytest.mark.hosts

CONFIG = f"/etc/pdctl/{CLUSTER}"
VENV = "/opt/pdctl/venvs/web-d1"
SECRETS = f"{CONFIG}/secrets.env"
TOKEN = "hf_TESTTOKEN_abc123"
REQUIREMENTS = ("idna==3.10",)
INSTALLER = "uv==0.13.9"
UNITS = {
    "h1": {"decoder": {"decoder-0": 7200, "decoder-1": 7201}},
    "h2": {"prefiller": {"prefiller-0": 7100}, "proxy": {"proxy": 9100}},
}
DESTROY = {
    "h1": {
        "pdctl_decoder": request(delete=[f"unit:pdctl-{CLUSTER}-decoder-{i}.service" for i in (0, 1)]),
        "pdctl_delete": request(everything=True),
    },
    "h2": {
        "pdctl_prefiller": request(delete=[f"unit:pdctl-{CLUSTER}-prefiller-0.service"]),
        "pdctl_delete": request(everything=True),
    },
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """uv and one small pure wheel, as the bundle would hold them."""
    folder = tmp_path_factory.mktemp("bundle")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder / "wheels"]
    subprocess.run([*command, INSTALLER, *REQUIREMENTS], check=True, capture_output=True)
    return folder


@dataclass
class Cluster:
    """The two hosts and what they are asked for. `asked` is what they are known to hold, None when unknown."""

    lab: Lab
    bundle: Path
    before: dict[str, list[str]]
    asked: dict[str, Any] | None = None

    def apply(self, *words: str, token: str = "PDCTL_TEST_TOKEN", **changed: Any) -> Run:
        self.asked = None
        run = play(self.lab, "apply", self.variables(**changed), env={token: TOKEN}, words=words or ("-v",))
        self.asked = changed if run.status == 0 else None
        return run

    def inside(self, script: str, host: str = "h1") -> str:
        self.asked = None
        return inside(self.lab, host, script)

    def changes(self) -> list[str]:
        """How the hosts differ from what they were before pdctl came."""
        now = {host: snapshot(self.lab, host) for host in UNITS}
        pairs = [(host, set(self.before[host]), set(now[host])) for host in UNITS]
        return [f"{host}: {line}" for host, was, is_ in pairs for line in sorted(was ^ is_)]

    def destroy(self) -> Run:
        self.asked = None
        return play(self.lab, "destroy", DESTROY)

    def variables(self, **changed: Any) -> dict[str, dict[str, Any]]:
        hosts: dict[str, dict[str, Any]] = {}
        for host, roles in UNITS.items():
            put = [
                user(),
                directory("/etc/pdctl"),
                directory(CONFIG, group="pdctl", mode="0750"),
                file(f"{CONFIG}/engine.yaml", "text: '{{ 7 * 7 }}'\n", group="pdctl"),
                file(SECRETS, "", secret=True, mode="0600", content=None, digest=""),
                *changed.get("more", ()),
                venv_row(self.bundle),
            ]
            requests = {}
            for role, instances in roles.items():
                pairs = [web_unit(name, port, **changed.get(name, {})) for name, port in instances.items()]
                put += [unit_file for unit_file, _ in pairs]
                requests[f"pdctl_{role}"] = request(units=[unit for _, unit in pairs])
            present = self.lab.exec(host, ["ls", "/opt/pdctl/bundle/wheels"]).stdout.split()
            wheels = [wheel.name for wheel in self.bundle.glob("wheels/*")]
            hosts[host] = {
                "pdctl_put": request(put=put),
                "pdctl_secrets": {SECRETS: {"HF_TOKEN": "env:PDCTL_TEST_TOKEN"}},
                "pdctl_wheels": [f"wheels/{name}" for name in wheels if name not in present],
                "pdctl_bundle_src": str(self.bundle),
                **requests,
            }
        return hosts


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[Cluster]:
    with lab_hosts(2, tmp_path_factory) as lab:
        yield Cluster(lab, bundle, {host: snapshot(lab, host) for host in UNITS})


@pytest.fixture
def cluster(hosts: Cluster) -> Cluster:
    """Both hosts are as they are asked to be when the test begins."""
    if hosts.asked != {}:
        run = hosts.apply()
        assert run.status == 0, run.output
    return hosts


def venv_row(bundle: Path) -> dict[str, Any]:
    lines, wheels = [], []
    for requirement in REQUIREMENTS:
        wheel = next(bundle.glob(f"wheels/{requirement.split('==')[0]}-*.whl"))
        lines.append(f"{requirement} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}")
        wheels.append(f"wheels/{wheel.name}")
    row = {"kind": "venv", "path": VENV, "digest": "d1", "python": "3.11", "damage": []}
    return {**row, "requirements": lines, "wheels": wheels}


def main_pids(cluster: Cluster, host: str = "h1") -> dict[str, str]:
    text = inside(cluster.lab, host, "systemctl show --property Id,MainPID 'pdctl-*'")
    blocks = (dict(line.split("=", 1) for line in block.splitlines()) for block in text.strip().split("\n\n"))
    return {block["Id"]: block["MainPID"] for block in blocks}


def unit_name(instance: str) -> str:
    return f"pdctl-{CLUSTER}-{instance}.service"


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
        [f"start {unit_name('decoder-0')}: active inactive -> active; runs with an older configuration"],
        {"decoder-0"},
    ),
    "a killed process": (
        f"kill -9 $(systemctl show --value --property MainPID {unit_name('decoder-0')}); "
        f"until systemctl is-failed -q {unit_name('decoder-0')}; do sleep 0.05; done",
        [f"start {unit_name('decoder-0')}: active failed -> active; runs with an older configuration"],
        {"decoder-0"},
    ),
    "another environment": (
        f"mkdir /etc/systemd/system/{unit_name('decoder-0')}.d; "
        f"printf '[Service]\\nEnvironment=DEBUG=1\\n' > /etc/systemd/system/{unit_name('decoder-0')}.d/x.conf; "
        f"systemctl daemon-reload; systemctl restart {unit_name('decoder-0')}",
        [
            f"restart {unit_name('decoder-0')}: environment: DEBUG added; "
            f"drop-in /etc/systemd/system/{unit_name('decoder-0')}.d/x.conf"
        ],
        {"decoder-0"},
    ),
    "a forgotten daemon-reload": (
        f"touch -d tomorrow /etc/systemd/system/{unit_name('decoder-0')}",
        [f"restart {unit_name('decoder-0')}: needs daemon-reload"],
        {"decoder-0"},
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
    assert run.failure("h1")["msg"] == f"{unit_name('decoder-0')}: it ended 3 times after its start"
    assert time.monotonic() - begun < 30


def test_an_engine_that_never_answers_is_given_up_after_its_time(cluster: Cluster) -> None:
    argv = ["/usr/bin/python3", "-c", "import time; time.sleep(600)"]
    run = cluster.apply(**{"decoder-0": {"argv": argv, "revision": "r5", "health_s": 2}})
    message = run.failure("h1")["msg"]
    assert f"{unit_name('decoder-0')}: not healthy within 2 s: http://127.0.0.1:7200/ does not" in message


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
