"""systemd keeps an engine to its CPUs and memory, and tells of one that cannot be kept where it shall be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdctl.desired import desire
from pdctl.desired.layout import SERVICE_USER, UNITS
from pdctl.lab import Bind, Lab
from pdctl.state import File, Unit
from pdctl.topology import resolve
from tests.labs import inside, lab_hosts, until
from tests.topology.specs import cluster
from tests.units.test_systemd_itself import put

pytestmark = pytest.mark.hosts

NAME = "pdctl-chat-decoder-0.service"
HOME = "/var/cache/pdctl/chat/decoder-0"
# A line of the unit, the one of a twin, and how systemd then ends it (systemd.exec(5), "Process Exit Codes").
ELSEWHERE = {
    "no-such-node": ("NUMAMask=0", "NUMAMask=999", "242"),
    "no-such-cpu": ("CPUAffinity=1", "CPUAffinity=4000", "215"),
}
# In the place of the engine's Python: the CPUs it may use, and the policy of its memory.
PROGRAM = """#!/usr/bin/python3
import json, os, pathlib, signal
home = pathlib.Path(os.environ["HOME"])
policies = {line.split()[1] for line in open("/proc/self/numa_maps")}
seen = {"cpus": sorted(os.sched_getaffinity(0)), "policies": sorted(policies)}
(home / "seen.tmp").write_text(json.dumps(seen))
(home / "seen.tmp").rename(home / "seen.json")
signal.pause()
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A host with an engine's unit for node 0 and one of its CPUs, and the same for what no host has."""
    files = tmp_path_factory.mktemp("files")
    nics = [{"name": "mlx5_0", "gpus": list(range(8)), "numa": 0, "cpus": "1"}]
    host = {"name": "gpu01", "address": "10.0.0.11", "gpus": 8, "nics": nics}
    state = list(desire(resolve(cluster(hosts=[host]))).values())
    [unit] = [r for r in state if isinstance(r, Unit) and r.instance == "decoder-0"]
    put(files, unit.argv[0], PROGRAM.encode(), 0o755)
    for resource in state:
        if isinstance(resource, File) and resource.content is not None and "decoder-0" in resource.path:
            write(files, resource)
    with lab_hosts(1, tmp_path_factory, [Bind(str(files), "/mnt/files")]) as lab:
        inside(lab, "h1", f"useradd --system --home-dir /opt/pdctl {SERVICE_USER}")
        inside(lab, "h1", "cp -r /mnt/files/. / && systemctl daemon-reload")
        yield lab


def write(files: Path, resource: File) -> None:
    """A unit without what waits for GPUs, and its twins."""
    assert resource.content is not None
    lines = [line for line in resource.content.decode().splitlines() if not line.startswith("ExecStartPre=")]
    text = "\n".join(lines) + "\n"
    put(files, resource.path, text.encode(), 0o644)
    if resource.path == f"{UNITS}/{NAME}":
        for twin, (line, instead, _) in ELSEWHERE.items():
            assert f"\n{line}\n" in text
            put(files, f"{UNITS}/{twin}.service", text.replace(line, instead).encode(), 0o644)


def test_the_process_runs_on_its_cpus_and_prefers_the_memory_of_its_node(lab: Lab) -> None:
    inside(lab, "h1", f"systemctl start {NAME}")
    until(lambda: lab.exec("h1", ["test", "-e", f"{HOME}/seen.json"]).returncode == 0)
    seen = json.loads(inside(lab, "h1", f"cat {HOME}/seen.json"))
    assert seen["cpus"] == [1]
    assert any(policy.startswith("prefer") for policy in seen["policies"])


@pytest.mark.parametrize("twin", ELSEWHERE)
def test_what_a_host_does_not_have_keeps_a_unit_from_starting_but_not_from_being_seen(
    lab: Lab, twin: str
) -> None:
    """`CPUAffinity=numa` with such a node would leave `systemctl show` without an answer."""
    assert lab.exec("h1", ["systemctl", "start", f"{twin}.service"]).returncode != 0
    assert inside(lab, "h1", f"systemctl show -P ExecMainStatus {twin}.service") == ELSEWHERE[twin][2]
    inside(lab, "h1", f"systemctl stop {twin}.service")
