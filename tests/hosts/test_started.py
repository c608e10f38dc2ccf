"""Hostile words from cluster.yaml to /proc: rendered, applied, started by systemd, the same byte for byte."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pdctl.desired import desire
from pdctl.spec.load import load
from pdctl.state import Unit
from pdctl.topology import resolve
from tests.hosts.line import PLACES, Line, unit
from tests.units.hostile import HOSTILE

pytestmark = pytest.mark.hosts

# Taken by the engine and without effect there, as often as one likes.
FLAG = "--chat-template="
WORDS = [f"{FLAG}{text}" for text in HOSTILE]
VARIABLES = {
    **{f"X_{number}": text for number, text in enumerate(HOSTILE)},
    "VLLM_LOGGING_PREFIX": "pd cluster A",
    "X": "a b=c",
    "P": "100%",
}
PATH = "/models/My%20Model %n 100%"
ENGINES = ("prefiller-0", "decoder-0", "decoder-1")
CACHES = ("HOME", "XDG_CACHE_HOME")


@dataclass(frozen=True)
class Process:
    """What one engine was started with, and what systemd says of its unit."""

    argv: list[bytes]
    environ: dict[bytes, bytes]
    shown: dict[str, str]
    wanted: Unit


@pytest.fixture(scope="module")
def line(unbound: Line) -> Iterator[Line]:
    pool = {"extra_args": WORDS, "env": VARIABLES}
    model = {"id": "pdctl/tiny", "served_name": "tiny", "path": PATH}
    unbound.write({"model": model}, prefillers=pool | {"count": 1}, decoders=pool | {"count": 2})
    text = json.dumps(unbound.spec, ensure_ascii=False)
    # Escapes of YAML, which knows no pairs of surrogates as JSON does.
    plain = re.sub(r"[^\x00-\x7f]", lambda found: f"\\U{ord(found[0]):08x}", text)
    (unbound.folder / "cluster.yaml").write_text(plain)
    unbound.apply()
    yield unbound
    unbound.broken = True


@pytest.fixture(scope="module")
def processes(line: Line) -> dict[str, Process]:
    lives = line.lives()
    return {name: process(line, name, lives[name].pid) for name in ENGINES}


def process(line: Line, instance: str, pid: str) -> Process:
    """Hexadecimal on the way, so that no byte is changed."""
    reading = "import sys; sys.stdout.write(open(sys.argv[1], 'rb').read().hex())"

    def words(name: str) -> list[bytes]:
        done = line.lab.exec(PLACES[instance], ["python3", "-c", reading, f"/proc/{pid}/{name}"])
        return bytes.fromhex(done.stdout).split(b"\0")[:-1]

    shown = line.inside(f"systemctl show {unit(instance)}", PLACES[instance]).splitlines()
    return Process(
        argv=words("cmdline"),
        environ={name: value for name, _, value in (word.partition(b"=") for word in words("environ"))},
        shown=dict(row.split("=", 1) for row in shown if "=" in row),
        wanted=wanted(line, instance),
    )


def wanted(line: Line, instance: str) -> Unit:
    cluster = load(line.folder / "cluster.yaml")
    found = [r for r in desire(resolve(cluster)).values() if isinstance(r, Unit) and r.instance == instance]
    return found[0]


def encoded(words: list[str]) -> list[bytes]:
    return [os.fsencode(word) for word in words]


@pytest.mark.parametrize("instance", ENGINES)
def test_every_word_arrives_as_it_was_written(processes: dict[str, Process], instance: str) -> None:
    found = processes[instance]
    assert found.argv == encoded(list(found.wanted.argv))
    assert found.argv[-len(WORDS) :] == encoded(WORDS)
    assert os.fsencode(PATH) in found.argv


@pytest.mark.parametrize("instance", ENGINES)
def test_every_variable_arrives_as_it_was_written_and_none_is_invented(
    processes: dict[str, Process], instance: str
) -> None:
    found = processes[instance]
    given = {os.fsencode(name): os.fsencode(value) for name, value in found.wanted.environment}
    assert given.items() <= found.environ.items()
    mine = {os.fsencode(name): os.fsencode(value) for name, value in VARIABLES.items()}
    assert mine.items() <= found.environ.items()
    assert b"b" not in found.environ and found.environ[b"X"] == b"a b=c"


@pytest.mark.parametrize("instance", ENGINES)
def test_limits_and_restarts_are_those_that_long_loads_and_late_devices_need(
    processes: dict[str, Process], instance: str
) -> None:
    """As systemd took them, since a virtual host's own ceiling on locked memory may be lower."""
    shown = processes[instance].shown
    assert shown["LimitMEMLOCK"] == "infinity" and int(shown["LimitNOFILE"]) >= 65536
    assert shown["Type"] == "exec"  # nothing waits for readiness in systemd: its start limit is no load limit
    assert (shown["Restart"], shown["StartLimitIntervalUSec"]) == ("always", "0")
    assert shown["RestartUSec"] == "10s" and shown["NRestarts"] == "0"


@pytest.mark.parametrize("instance", ENGINES)
def test_homes_and_caches_are_the_service_users_own(
    line: Line, processes: dict[str, Process], instance: str
) -> None:
    found = processes[instance]
    for name in CACHES:
        folder = os.fsdecode(found.environ[name.encode()])
        stat = line.inside(f"stat -c '%U %G %a' {folder}", PLACES[instance]).strip()
        assert stat == "pdctl pdctl 750", name
        line.inside(f"runuser -u pdctl -- test -w {folder}", PLACES[instance])
    assert found.environ[b"HF_HOME"].startswith(b"/") and not found.environ[b"HF_HOME"].endswith(b"/hub")


def test_nothing_differs_from_what_was_asked_for(line: Line) -> None:
    assert line.diff()["empty"]
