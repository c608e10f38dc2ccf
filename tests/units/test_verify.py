"""systemd itself finds nothing wrong with any unit that pdctl writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdctl.desired import desire
from pdctl.desired.layout import UNITS
from pdctl.state import File, Key, Resource, Unit
from pdctl.topology import resolve
from tests.examples import EXAMPLES, desired
from tests.topology.specs import cluster
from tests.units.hostile import HOSTILE
from tests.units.verify import available, verify

pytestmark = pytest.mark.skipif(bool(available()), reason=available() or "systemd-analyze is here")

PYTHON = "/opt/pdctl/venvs/x/bin/python"
GOOD = f"""[Unit]
Description=planted
After=network-online.target
Wants=network-online.target
[Service]
Type=exec
ExecStart={PYTHON} -m x
[Install]
WantedBy=multi-user.target
"""
# What is wrong -> (a line of the good unit, the bad one instead, what every systemd's complaint names).
PLANTED = {
    "a percent sign that is no specifier": ("-m x", "-m %2F", "%2F"),
    "a start limit in the wrong section": (
        "Type=exec",
        "StartLimitIntervalSec=0",
        "StartLimitIntervalSec",
    ),
    "JSON in single quotes with a quote inside": ("-m x", '\'{"a":"it\'s"}\'', "quoting"),
    "an unknown escape": ("-m x", '"\\q"', "\\q"),
    "a command that is not there": (PYTHON, "/opt/nowhere/python", "/opt/nowhere/python"),
    "a relative command": (f"ExecStart={PYTHON}", "ExecStart=./python", "./python"),
    "a misspelt limit": ("Type=exec", "LimitMEMLOK=infinity", "LimitMEMLOK"),
    "a relative environment file": ("Type=exec", "EnvironmentFile=x.env", "x.env"),
    "no command at all": (f"ExecStart={PYTHON} -m x", "", "ExecStart="),
    "a character that systemd does not take": ("-m x", '-m "\ufffe"', "UTF-8"),
}


def units_of(state: dict[Key, Resource], host: str) -> tuple[dict[str, str], list[str]]:
    """Texts of the unit files by name, and the programs that they start."""
    here = [resource for key, resource in state.items() if key.host == host]
    texts = {
        Path(r.path).name: r.content.decode()
        for r in here
        if isinstance(r, File) and r.path.startswith(UNITS) and r.content is not None
    }
    return texts, [r.argv[0] for r in here if isinstance(r, Unit)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_unit_of_the_examples_is_clean(name: str, tmp_path: Path) -> None:
    state = desired(name)
    for host in {key.host for key in state}:
        texts, programs = units_of(state, host)
        assert len(texts) == len(programs) >= 1
        assert verify(tmp_path / host, texts, programs) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_file_that_a_unit_names_is_put_on_its_host(name: str) -> None:
    state = desired(name)
    for key, resource in state.items():
        if not (isinstance(resource, File) and resource.path.startswith(UNITS) and resource.content):
            continue
        files = {r.path for k, r in state.items() if k.host == key.host and isinstance(r, File)}
        named = [
            line.partition("=")[2]
            for line in resource.content.decode().splitlines()
            if line.startswith("EnvironmentFile=")
        ]
        assert named and set(named) <= files


def test_a_unit_with_hostile_words_is_clean(tmp_path: Path) -> None:
    pools = {"prefillers": {"extra_args": HOSTILE}, "decoders": {"extra_args": HOSTILE}}
    texts, programs = units_of(desire(resolve(cluster(serving=pools))), "gpu01")
    assert verify(tmp_path / "root", texts, programs) == []


def test_a_clean_unit_passes(tmp_path: Path) -> None:
    assert verify(tmp_path / "root", {"planted.service": GOOD}, [PYTHON]) == []


@pytest.mark.parametrize(("old", "new", "said"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_found(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in GOOD
    found = verify(tmp_path / "root", {"planted.service": GOOD.replace(old, new)}, [PYTHON])
    assert said in "\n".join(found)
