"""A small cluster of web servers in the place of engines, put on two lab hosts by plain ansible-playbook."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pdctl.lab import Lab
from tests.hosts.plays import (
    CLUSTER,
    Run,
    directory,
    file,
    inside,
    play,
    request,
    snapshot,
    user,
    web_unit,
)
from tests.labs import lab_hosts

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


@contextmanager
def cluster_on_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two fresh hosts; the bundle holds uv and one small pure wheel."""
    bundle = tmp_path_factory.mktemp("bundle")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", bundle / "wheels"]
    subprocess.run([*command, INSTALLER, *REQUIREMENTS], check=True, capture_output=True)
    with lab_hosts(2, tmp_path_factory) as lab:
        yield Cluster(lab, bundle, {host: snapshot(lab, host) for host in UNITS})


@dataclass
class Cluster:
    """The two hosts. `asked`: how what they are known to hold differs from the plain cluster, if known."""

    lab: Lab
    bundle: Path
    before: dict[str, list[str]]
    asked: dict[str, Any] | None = None

    def ready(self) -> Cluster:
        """Both hosts are as they are asked to be."""
        if self.asked != {}:
            run = self.apply()
            assert run.status == 0, run.output
        return self

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
