"""pdctl as a user runs it, from a folder with a cluster.yaml, on lab hosts with the engine simulator."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pdctl.bundle.collect import Runtime, collect, default_folder
from pdctl.lab import Bind, Lab
from tests.hosts.plays import inside
from tests.labs import lab_hosts

# Cases that add certainty rather than new ground: `make soak`.
soak = pytest.mark.skipif("PDCTL_SOAK" not in os.environ, reason="one of the long tests: make soak")
CLUSTER = "line"
CONFIG = f"/etc/pdctl/{CLUSTER}"
RECORD = f"/var/lib/pdctl/{CLUSTER}/record.json"
UNITS = "/etc/systemd/system"
HOSTS = ("h1", "h2")
# Where the instances of SPEC are: prefillers go round from the first host, decoders from the last.
PLACES = {"prefiller-0": "h1", "decoder-0": "h2", "decoder-1": "h1", "proxy": "h1"}
SPEC: dict[str, Any] = {
    "cluster": CLUSTER,
    "hosts": [{"name": "h1", "address": "198.18.0.10"}, {"name": "h2", "address": "198.18.0.11"}],
    "engine": "simulator",
    "model": {"id": "pdctl/tiny", "served_name": "tiny"},
    "serving": {"prefillers": {"count": 1}, "decoders": {"count": 2}, "lmcache": {"chunk_size": 32}},
}


class Life(NamedTuple):
    """One run of one unit: another pid or invocation is another run."""

    pid: str
    invocation: str


@dataclass(frozen=True)
class Ran:
    """How a pdctl command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def must(self, status: int = 0) -> Ran:
        """This, if it ended as it must."""
        assert self.status == status, f"exit status {self.status}, not {status}\n{self.out}\n{self.err}"
        return self


@dataclass
class Line:
    """A lab, a folder with the spec, and pdctl in it. `broken`: nobody knows what state the hosts are in."""

    lab: Lab
    folder: Path
    spec: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(SPEC))
    broken: bool = True

    def write(self, changes: Mapping[str, Any] | None = None, **serving: Any) -> None:
        """cluster.yaml: SPEC with other top-level fields and fields of `serving`; JSON is YAML."""
        self.spec = {**copy.deepcopy(SPEC), "ssh": {"config": str(self.lab.ssh_config)}, **(changes or {})}
        self.spec["serving"] |= serving
        self.save()

    def save(self) -> None:
        """cluster.yaml is as `spec` is now."""
        (self.folder / "cluster.yaml").write_text(json.dumps(self.spec, indent=1) + "\n")

    def pdctl(self, *words: str, env: Mapping[str, str] | None = None, timeout: float = 120) -> Ran:
        self.broken = True
        running = self.start(*words, env=env)
        try:
            out, err = running.communicate(timeout=timeout)
        finally:
            running.kill()
        return Ran(running.returncode, out, err)

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [Path(sys.executable).with_name("pdctl"), *words],
            cwd=self.folder,
            env=self.environment | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def environment(self) -> dict[str, str]:
        """Locks and logs in a place of their own; the colours of a terminal off."""
        return os.environ | {"XDG_STATE_HOME": str(self.state), "NO_COLOR": "1"}

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def apply(self, *words: str) -> Ran:
        """Must succeed."""
        ran = self.pdctl("apply", "--yes", *words).must()
        self.broken = False
        return ran

    def diff(self) -> Any:
        """The plan; whether it is empty must be what the exit status says."""
        broken = self.broken
        ran = self.pdctl("diff", "--json", "--exit-code")
        self.broken = broken
        assert ran.status == (0 if ran.json["empty"] else 2), ran
        return ran.json

    def inside(self, script: str, host: str = "h1") -> str:
        self.broken = True
        return inside(self.lab, host, script)

    def lives(self) -> dict[str, Life]:
        """The present run of every unit of the cluster, by instance; those that do not run have none."""
        found = {}
        show = f"systemctl show --property Id,MainPID,InvocationID 'pdctl-{CLUSTER}-*'"
        for host in HOSTS:
            for block in inside(self.lab, host, show).strip().split("\n\n"):
                row = dict(entry.split("=", 1) for entry in block.splitlines())
                if row.get("MainPID", "0") != "0":
                    name = row["Id"].removeprefix(f"pdctl-{CLUSTER}-").removesuffix(".service")
                    found[name] = Life(row["MainPID"], row["InvocationID"])
        return found

    def mend(self) -> None:
        """Back to SPEC, from wherever the test before this one has left the hosts."""
        self.write()
        if self.broken:
            self.apply("--no-verify")


def unit(instance: str) -> str:
    return f"pdctl-{CLUSTER}-{instance}.service"


@contextmanager
def line_on_hosts(tmp_path_factory: pytest.TempPathFactory, bound: bool = True) -> Iterator[Line]:
    """Two fresh hosts and a written spec. `bound`: they see the bundle already; else pdctl has to copy it."""
    bundle = default_folder()
    collect([Runtime("simulator", "3.11"), Runtime("proxy", "3.11")], bundle)
    binds = [Bind(str(bundle), "/opt/pdctl/bundle")] if bound else []
    with lab_hosts(len(HOSTS), tmp_path_factory, binds) as lab:
        line = Line(lab, tmp_path_factory.mktemp("line"))
        line.write()
        yield line


def changed(before: Mapping[str, Life], after: Mapping[str, Life]) -> set[str]:
    """Instances that do not run as they ran before: restarted, started, gone."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
