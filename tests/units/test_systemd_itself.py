"""systemd has the last word: a real unit on a virtual host, whose program tells what it was started with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pdctl.desired import desire
from pdctl.desired.layout import SERVICE_USER
from pdctl.lab import Bind, Lab
from pdctl.state import File, Resource, Unit
from pdctl.topology import resolve
from tests.labs import inside, lab_hosts, until
from tests.topology.specs import cluster, serving
from tests.units.hostile import HOSTILE

pytestmark = pytest.mark.hosts

# In the place of the engine's Python: the words and variables of this process, into its own cache folder.
PROGRAM = """#!/usr/bin/python3
import json, os, pathlib, signal, sys
home = pathlib.Path(os.environ["HOME"])
seen = {"argv": sys.argv, "environ": dict(os.environ), "cwd": os.getcwd(), "user": os.getuid()}
(home / "seen.tmp").write_text(json.dumps(seen))
(home / "seen.tmp").rename(home / "seen.json")
signal.pause()
"""
# What systemd adds by itself (systemd.exec(5), "Environment Variables in Spawned Processes").
SYSTEMDS_OWN = {
    "PATH", "LANG", "LOGNAME", "SHELL", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID",
    "CACHE_DIRECTORY", "RUNTIME_DIRECTORY",
}  # fmt: skip
PYTHONS_OWN = {"LC_CTYPE"}  # PEP 538, where the locale is C
VARIABLES = {f"X_{number}": text for number, text in enumerate(HOSTILE)}
HOME = "/var/cache/pdctl/chat/decoder-0"


@dataclass(frozen=True)
class Started:
    """A unit, what its process says of itself, and what systemd says of the unit."""

    unit: Unit
    process: dict[str, Any]
    shown: dict[str, str]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """The decoder of a simulated cluster, with hostile words and variables, on a real host."""
    pools = serving(1, 1, 1) | {"decoders": {"extra_args": HOSTILE, "env": VARIABLES}}
    state = list(desire(resolve(cluster(engine="simulator", serving=pools))).values())
    [unit] = [r for r in state if isinstance(r, Unit) and r.instance == "decoder-0"]
    files = tmp_path_factory.mktemp("files")
    write(files, state, unit)
    with lab_hosts(1, tmp_path_factory, [Bind(str(files), "/mnt/files")]) as lab:
        inside(lab, "h1", f"useradd --system --home-dir /opt/pdctl {SERVICE_USER}")
        inside(lab, "h1", "cp -r /mnt/files/. / && systemctl daemon-reload")
        inside(lab, "h1", f"systemctl start {unit.name}")
        until(lambda: lab.exec("h1", ["test", "-e", f"{HOME}/seen.json"]).returncode == 0)
        yield Started(unit, json.loads(inside(lab, "h1", f"cat {HOME}/seen.json")), show(lab, unit))


def test_the_process_gets_the_words_as_they_were_written(started: Started) -> None:
    assert started.process["argv"] == list(started.unit.argv)
    assert started.process["argv"][-len(HOSTILE) :] == HOSTILE


def test_the_process_gets_the_variables_as_they_were_written_and_no_other(started: Started) -> None:
    environ, meant = started.process["environ"], dict(started.unit.environment)
    assert VARIABLES.items() <= environ.items() and meant.items() <= environ.items()
    assert environ.keys() - SYSTEMDS_OWN - PYTHONS_OWN == meant.keys() | {"PDCTL_REVISION"}
    assert environ["PDCTL_REVISION"] == started.unit.revision


def test_the_process_is_the_service_users_in_a_folder_of_its_own(started: Started) -> None:
    assert started.process["user"] != 0
    assert started.process["cwd"] == started.process["environ"]["HOME"] == HOME


def test_systemd_took_the_limits_and_the_endless_restarts(started: Started) -> None:
    """The value of the unit, since a virtual host's own ceiling may be lower."""
    assert started.shown["LimitMEMLOCK"] == "infinity"  # limits.d does not reach services
    assert int(started.shown["LimitNOFILE"]) >= 65536
    assert started.shown["Restart"] == "always" and started.shown["RestartUSec"] == "10s"
    assert started.shown["StartLimitIntervalUSec"] == "0"
    assert started.shown["NRestarts"] == "0"


def write(folder: Path, state: list[Resource], unit: Unit) -> None:
    for resource in state:
        if isinstance(resource, File) and resource.content is not None:
            put(folder, resource.path, resource.content, 0o644)
    put(folder, unit.argv[0], PROGRAM.encode(), 0o755)


def put(folder: Path, path: str, content: bytes, mode: int) -> None:
    target = folder / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    target.chmod(mode)


def show(lab: Lab, unit: Unit) -> dict[str, str]:
    lines = inside(lab, "h1", f"systemctl show {unit.name}").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)
