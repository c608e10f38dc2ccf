"""A secret's value: in its one file and in its processes, and nowhere else, before, during and after."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pdctl.bundle.collect import default_folder
from tests.hosts.line import CONFIG, HOSTS, PLACES, RECORD, Line, Ran, changed, line_on_hosts
from tests.labs import until

pytestmark = pytest.mark.hosts

OLD, NEW = "hf_TESTTOKEN_abc123_0f3a9c", "hf_TESTTOKEN_def456_77b1e2"
PLANTED = "hf_TESTTOKEN_planted_90c1d4"
FILE = f"{CONFIG}/secrets.env"
SPEC = {"secrets": {"HF_TOKEN": {"from_env": "HF_TOKEN"}}}
ENGINES = {"decoder-0", "decoder-1", "prefiller-0"}
STOP = "/run/stop-watching"
# Looks for needles in command lines and in temporary files of the host; the program comes by stdin, so that
# its own command line holds none.
WATCH = """
import glob, os, time
found, commands, rounds = set(), set(), 0
while not os.path.exists({stop!r}):
    files = glob.glob("/proc/[0-9]*/cmdline")
    for top in ("/tmp", "/var/tmp", "/dev/shm", "/home", "/root"):
        files += [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]
    for path in files:
        try:
            data = open(path, "rb").read()
        except OSError:
            continue
        if any(needle in data for needle in {needles!r}):
            found.add(path)
        if path.startswith("/proc") and b"sudo" in data:
            commands.add(data)
    rounds += 1
    time.sleep(0.02)
print(rounds, len(commands), *found)
"""


def needles(*values: str) -> list[bytes]:
    """Each value as it is, and inside of base64 at every alignment: requests to hosts are in base64."""
    found = []
    for value in values:
        found.append(value.encode())
        for shift in range(3):
            encoded = base64.b64encode(b"\0" * shift + value.encode())
            found.append(encoded[-(-shift * 8 // 6) + (shift > 0) : len(encoded) // 4 * 4 - 4])
    return found


@dataclass
class Watched:
    """Where a needle was seen while something ran, and how well it was looked."""

    seen: set[str] = field(default_factory=set)
    rounds: int = 0
    logins: int = 0


@contextmanager
def watching(line: Line, *values: str) -> Iterator[Watched]:
    """Looks at the hosts and at this machine until the block ends."""
    watched = Watched()
    program = WATCH.format(stop=STOP, needles=needles(*values))
    ended = threading.Event()
    here = threading.Thread(target=look_here, args=(line, values, watched, ended))
    here.start()
    there = {}
    for host in HOSTS:
        argv = line.lab.enter_argv(host, ["python3", "-"])
        there[host] = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        feed(there[host], program)
    try:
        yield watched
    finally:
        ended.set()
        here.join()
        for host, process in there.items():
            line.inside(f"touch {STOP}", host)
            rounds, logins, *paths = process.communicate(timeout=30)[0].decode().split()
            line.inside(f"rm {STOP}", host)
            watched.seen |= {f"{host}:{path}" for path in paths}
            watched.rounds += int(rounds)
            watched.logins += int(logins)


def feed(process: subprocess.Popen[bytes], program: str) -> None:
    """All of its stdin."""
    assert process.stdin
    process.stdin.write(program.encode())
    process.stdin.close()
    process.stdin = None


def look_here(line: Line, values: tuple[str, ...], watched: Watched, ended: threading.Event) -> None:
    """Command lines of all processes, and the folder for temporary files that pdctl was given."""
    while not ended.wait(0.02):
        files = [*Path("/proc").glob("[0-9]*/cmdline")]
        files += [Path(folder, name) for folder, _, names in os.walk(temporary(line)) for name in names]
        for path in files:
            with contextlib.suppress(OSError):
                data = path.read_bytes() if path.is_file() else b""  # no pipes
                if any(needle in data for needle in needles(*values)):
                    watched.seen.add(f"controller:{path}")
        watched.rounds += 1


def temporary(line: Line) -> Path:
    return line.folder / "tmp"


def run(line: Line, token: str, *words: str) -> Ran:
    """pdctl with the secret in its environment, and with a home and temporary files of its own."""
    for name in ("tmp", "home"):
        (line.folder / name).mkdir(exist_ok=True)
    env = {
        "HF_TOKEN": token,
        "TMPDIR": str(temporary(line)),
        "HOME": str(line.folder / "home"),
        "XDG_CACHE_HOME": str(default_folder().parents[1]),
    }
    return line.pdctl(*words, env=env)


def places(line: Line, *values: str) -> set[str]:
    """Every file of the hosts and of the folder of the spec that holds a value in one of its forms."""
    patterns = "".join(f"-e {needle.decode()} " for needle in needles(*values))
    tops = "/etc /opt /var /run /tmp /home /root /srv /usr/local /dev/shm"
    found = set()
    for host in HOSTS:
        files = f"grep -raslF --exclude-dir=python3.11 {patterns} {tops} || true"
        found |= {f"{host}:{path}" for path in line.inside(files, host).split()}
        if line.inside(f"journalctl --no-pager --all | grep -cF {patterns} || true", host).strip() != "0":
            found.add(f"{host}:journal")
    here = ["grep", "-rasl", "-F", *patterns.split(), str(line.folder)]
    done = subprocess.run(here, capture_output=True, text=True, check=False)
    return found | {f"controller:{path}" for path in done.stdout.split()}


def printed(values: list[str], *runs: Ran) -> list[str]:
    return [text for ran in runs for text in (ran.out, ran.err) if any(v in text for v in values)]


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """Applied once with the old value, watched all the while."""
    with line_on_hosts(tmp_path_factory) as line:
        line.write(SPEC)
        with watching(line, OLD) as watched:
            runs = [run(line, OLD, "diff").must(), run(line, OLD, "apply", "--yes").must()]
        assert watched.seen == set() and watched.rounds > 50 and watched.logins > 0
        assert printed([OLD], *runs) == []
        yield line


@pytest.fixture
def applied(line: Line) -> Line:
    """The old value is on the hosts."""
    if set(holders(line, OLD)) != ENGINES or places(line, OLD) != FILES:
        run(line, OLD, "apply", "--yes", "--no-verify").must()
    return line


FILES = {f"{host}:{FILE}" for host in HOSTS}


def test_the_value_is_in_one_file_that_only_root_reads_and_in_the_engines(applied: Line) -> None:
    for host in HOSTS:
        assert applied.inside(f"stat -c '%U:%G %a' {FILE}", host).split() == ["root:root", "600"]
    assert set(holders(applied, OLD)) == ENGINES
    assert places(applied, OLD) == FILES


def holders(line: Line, value: str) -> dict[str, str]:
    """Instances whose process has the value in its environment, with their pid."""
    found = {}
    for name, life in line.lives().items():
        environment = line.inside(f"tr '\\0' '\\n' < /proc/{life.pid}/environ", PLACES[name])
        if f"HF_TOKEN={value}" in environment.splitlines():
            found[name] = life.pid
    return found


def test_no_command_prints_or_writes_the_value(applied: Line) -> None:
    commands = [("diff", "--json"), ("status", "--json"), ("verify", "--json"), ("logs", "decoder-0")]
    commands += [("apply", "--yes"), ("render", "--out", "project"), ("bench", "--quick"), ("validate",)]
    assert printed([OLD], *(run(applied, OLD, *words).must() for words in commands)) == []
    assert places(applied, OLD) == FILES
    record = json.loads(applied.inside(f"cat {RECORD}"))
    (row,) = (row for row in record["resources"] if row.get("path") == FILE)
    assert row["secret"] and row["digest"].startswith("scrypt:")


def test_an_apply_that_fails_at_the_secret_says_why_and_not_what(applied: Line) -> None:
    block = f"mkdir {FILE}.pdctl-new"
    applied.inside(block, "h2")
    try:
        with watching(applied, NEW) as watched:
            ran = run(applied, NEW, "--debug", "apply", "--yes").must(1)
    finally:
        applied.inside(f"rmdir {FILE}.pdctl-new", "h2")
    assert f"  h2: {FILE}.pdctl-new: Is a directory" in ran.err
    assert watched.seen == set() and printed([OLD, NEW], ran) == []
    assert places(applied, NEW) <= FILES


def test_a_variable_that_is_not_set_is_named(applied: Line) -> None:
    ran = applied.pdctl("apply", "--yes").must(1)
    assert "the environment variable HF_TOKEN is not set" in ran.err
    assert "hint: run `export HF_TOKEN=...` first" in ran.err


def test_a_rotated_secret_is_shown_masked_and_restarts_its_engines(applied: Line) -> None:
    lives = applied.lives()
    diff = run(applied, NEW, "diff", "--json", "--exit-code").must(2)
    for host in HOSTS:
        (change,) = (c for c in diff.json["changes"] if (c["host"], c["id"]) == (host, f"file:{FILE}"))
        assert change["diff"] == ["HF_TOKEN: *** -> ***"] and not change["drift"]
    assert {row["instance"] for row in diff.json["restarts"]} == ENGINES
    with watching(applied, OLD, NEW) as watched:
        ran = run(applied, NEW, "apply", "--yes").must()
    assert watched.seen == set() and printed([OLD, NEW], diff, ran) == []
    assert "HF_TOKEN: *** -> ***" in run(applied, OLD, "diff").out
    assert changed(lives, applied.lives()) == ENGINES == set(holders(applied, NEW))
    assert places(applied, OLD) == set() and places(applied, NEW) == FILES
    run(applied, NEW, "diff", "--exit-code").must()


def test_a_secret_edited_on_a_host_is_drift_that_is_never_shown(applied: Line) -> None:
    applied.inside(f"echo 'HF_TOKEN={PLANTED}' > {FILE}; chmod 644 {FILE}")
    diff = run(applied, OLD, "diff", "--json", "--exit-code").must(2)
    (change,) = diff.json["changes"]
    assert change["id"] == f"file:{FILE}" and change["drift"] and "mode 0644 -> 0600" in change["why"]
    ran = run(applied, OLD, "apply", "--yes").must()
    assert printed([OLD, PLANTED], diff, ran) == []
    assert places(applied, PLANTED) == set() and places(applied, OLD) == FILES


def test_the_searches_find_what_is_planted(applied: Line) -> None:
    """Else none of the tests above could fail."""
    text = base64.b64encode(f'{{"token": "{PLANTED}", "x": 1}}'.encode()).decode()
    applied.inside(f"echo {PLANTED} > /var/tmp/plain; echo 'x: {text}' > /etc/encoded; logger {PLANTED}")
    (applied.folder / "state/planted").write_text(PLANTED)
    try:
        assert places(applied, PLANTED) - {"h1:journal"} >= {
            "h1:/var/tmp/plain",
            "h1:/etc/encoded",
            f"controller:{applied.folder}/state/planted",
        }
        until(lambda: "h1:journal" in places(applied, PLANTED))
        with watching(applied, PLANTED) as watched:
            temporary(applied).mkdir(exist_ok=True)
            (temporary(applied) / "planted").write_text(PLANTED)
            applied.inside(f"python3 -c 'import time; time.sleep(0.5)' {PLANTED}")
        assert any(path.startswith("h1:/proc/") for path in watched.seen)
        assert {"h1:/var/tmp/plain", f"controller:{temporary(applied)}/planted"} <= watched.seen
    finally:
        applied.inside("rm /var/tmp/plain /etc/encoded")
        (temporary(applied) / "planted").unlink()
        (applied.folder / "state/planted").unlink()
