"""Packages on a real host: from the bundle and from a repository, held, upgraded, refused, purged."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pdctl.lab import Bind, Lab
from tests.hosts.plays import Run, file, inside, package, play, request, snapshot
from tests.labs import lab_hosts

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="makes packages with dpkg-deb"),
]

SOURCES = file("/etc/apt/sources.list.d/pdctl-test.list", "deb [trusted=yes] file:/srv/repo ./\n")
HOLD_LOCK = """
import fcntl, sys, time
with open(sys.argv[1], "r+") as handle:
    fcntl.lockf(handle, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""
FRONTEND = "/var/lib/dpkg/lock-frontend"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pd-tool 1.10 and 1.9, which needs pd-part; pd-slow, whose installation waits; pd-bad, whose fails."""
    folder = tmp_path_factory.mktemp("repo")
    wait = "#!/bin/sh\nwhile [ -e /etc/pd-wait ]; do sleep 0.1; done\n"
    debs = [
        make_deb(folder, "pd-part", "1.0"),
        make_deb(folder, "pd-tool", "1.9", depends="pd-part"),
        make_deb(folder, "pd-tool", "1.10", depends="pd-part"),
        make_deb(folder, "pd-slow", "1.0", postinst=wait),
        make_deb(folder, "pd-bad", "1.0", postinst="#!/bin/sh\necho 'no such device' >&2\nexit 1\n"),
    ]
    (folder / "Packages").write_text("\n".join(stanza(deb) for deb in debs))
    return folder


def make_deb(folder: Path, name: str, version: str, depends: str = "", postinst: str = "") -> Path:
    tree = folder / f"{name}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    fields = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@example.org>\n"
    needs = f"Depends: {depends}\n" if depends else ""
    (tree / "DEBIAN/control").write_text(f"{fields}{needs}Description: {name}\n")
    if postinst:
        (tree / "DEBIAN/postinst").write_text(postinst)
        (tree / "DEBIAN/postinst").chmod(0o755)
    deb = folder / f"{name}_{version}_all.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, deb], check=True, capture_output=True)
    shutil.rmtree(tree)
    return deb


def stanza(deb: Path) -> str:
    shown = subprocess.run(["dpkg-deb", "--field", deb], check=True, capture_output=True, text=True)
    digest = hashlib.sha256(deb.read_bytes()).hexdigest()
    return f"{shown.stdout}Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Lab]:
    binds = [Bind(str(repository), "/srv/repo"), Bind(str(repository), "/opt/pdctl/bundle/debs")]
    with lab_hosts(1, tmp_path_factory, binds) as lab:
        yield lab


@pytest.fixture
def before(lab: Lab) -> Iterator[list[str]]:
    """Each test ends with destroy, and the host is then as it was."""
    was = snapshot(lab, "h1")
    yield was
    run = play(lab, "destroy", {"h1": {"pdctl_delete": request(everything=True)}})
    assert run.status == 0, run.output
    assert sorted(set(snapshot(lab, "h1")) ^ set(was)) == []


def put(lab: Lab, *rows: dict[str, Any], **more: Any) -> Run:
    return play(lab, "apply", {"h1": {"pdctl_put": request(put=[SOURCES, *rows], **more)}})


def state(lab: Lab, name: str) -> str:
    query = f"dpkg-query -W -f '${{Version}} ${{db:Status-Abbrev}}' {name} 2>/dev/null || true"
    return inside(lab, "h1", query).strip()


@pytest.mark.usefixtures("before")
def test_a_package_file_of_the_bundle_is_installed_with_what_it_needs(lab: Lab) -> None:
    run = put(lab, package("pd-tool", "1.10", deb="debs/pd-tool_1.10_all.deb"))
    assert run.status == 0, run.output
    assert (state(lab, "pd-tool"), state(lab, "pd-part")) == ("1.10 ii", "1.0 ii")
    assert put(lab, package("pd-tool", "1.10", deb="debs/pd-tool_1.10_all.deb")).did("h1") == []


@pytest.mark.usefixtures("before")
def test_a_held_package_follows_its_pin_and_stays_held(lab: Lab) -> None:
    assert put(lab, package("pd-tool", "1.9", hold=True)).status == 0
    assert state(lab, "pd-tool") == "1.9 hi"
    run = put(lab, package("pd-tool", "1.10", hold=True))
    assert run.did("h1") == ["update package pd-tool: version 1.9 -> 1.10"], run.output
    assert state(lab, "pd-tool") == "1.10 hi"
    assert put(lab, package("pd-tool", "1.10", hold=True)).did("h1") == []
    assert put(lab, package("pd-tool", "1.10")).did("h1") == ["update package pd-tool: hold yes -> no"]
    assert state(lab, "pd-tool") == "1.10 ii"


@pytest.mark.usefixtures("before")
def test_a_hold_of_someone_else_is_respected(lab: Lab) -> None:
    assert put(lab, package("pd-tool", "1.9")).status == 0
    inside(lab, "h1", "apt-mark hold pd-tool")
    run = put(lab, package("pd-tool", "1.10", hold=True))
    assert run.status != 0 and "held, and not by pdctl: pd-tool" in run.failure("h1")["msg"]
    assert state(lab, "pd-tool") == "1.9 hi"
    inside(lab, "h1", "apt-mark unhold pd-tool")


@pytest.mark.usefixtures("before")
def test_a_downgrade_needs_consent(lab: Lab) -> None:
    assert put(lab, package("pd-tool", "1.10", hold=True)).status == 0
    run = put(lab, package("pd-tool", "1.9", hold=True))
    assert run.status != 0 and "Packages were downgraded" in run.failure("h1")["msg"]
    assert state(lab, "pd-tool") == "1.10 hi"
    assert put(lab, package("pd-tool", "1.9", hold=True), allow_downgrades=True).status == 0
    assert state(lab, "pd-tool") == "1.9 hi"


@pytest.mark.usefixtures("before")
def test_a_version_no_repository_has_is_told_with_what_is_offered(lab: Lab) -> None:
    message = put(lab, package("pd-tool", "2.0")).failure("h1")["msg"]
    assert "pd-tool 2.0 is in no repository of this host; there are: 1.10, 1.9 (file:/srv/repo ./)" in message
    message = put(lab, package("pd-none", "1")).failure("h1")["msg"]
    assert "pd-none 1 is in no repository of this host, nor is any other version of it" in message


@pytest.mark.usefixtures("before")
def test_a_package_whose_installation_fails_gives_its_reason(lab: Lab) -> None:
    run = put(lab, package("pd-bad", "1.0"))
    message = run.failure("h1")["msg"]
    assert "apt-get install failed" in message and "no such device" in message, message
    assert state(lab, "pd-bad") == ""


@pytest.mark.usefixtures("before")
def test_a_lock_held_by_another_is_waited_for(lab: Lab) -> None:
    with holding(lab, FRONTEND, 3) as holder:
        run = put(lab, package("pd-tool", "1.10"))
        assert run.status == 0, run.output
        assert holder.wait(timeout=10) == 0
    assert state(lab, "pd-tool") == "1.10 ii"


@pytest.mark.usefixtures("before")
@pytest.mark.parametrize("lock", [FRONTEND, "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock"])
def test_a_lock_that_is_not_let_go_names_its_holder_and_is_left_to_it(lab: Lab, lock: str) -> None:
    put(lab)
    inside(lab, "h1", f"touch {lock}")
    with holding(lab, lock, 600) as holder:
        run = put(lab, package("pd-tool", "1.10"), apt={"lock_timeout_s": 1})
        message = run.failure("h1")["msg"]
        assert f"after 1 s {lock} is still held by process " in message
        assert "(python3 -c " in message and "Nothing was installed" in message
        assert holder.poll() is None
        pid = message.partition("held by process ")[2].split()[0]
        inside(lab, "h1", f"test -e {lock} && kill {pid}")
    assert state(lab, "pd-tool") == ""
    assert put(lab, package("pd-tool", "1.10")).status == 0


@contextmanager
def holding(lab: Lab, lock: str, seconds: float) -> Iterator[subprocess.Popen[str]]:
    command = lab.enter_argv("h1", ["python3", "-c", HOLD_LOCK, lock, str(seconds)])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        try:
            yield holder
        finally:
            holder.kill()


@pytest.mark.usefixtures("before")
def test_a_power_cut_during_an_installation_is_repaired_by_the_next_run(lab: Lab) -> None:
    inside(lab, "h1", "touch /etc/pd-wait")
    install = "apt-get update && apt-get install -y pd-slow"
    put(lab)
    with subprocess.Popen(lab.enter_argv("h1", ["sh", "-c", install]), stdout=subprocess.PIPE) as running:
        inside(lab, "h1", "until pgrep -f pd-slow.postinst; do sleep 0.1; done")
        lab.poweroff("h1")
        running.wait(timeout=30)
    lab.boot("h1")
    inside(lab, "h1", "rm /etc/pd-wait")
    assert state(lab, "pd-slow") != "1.0 ii"
    run = put(lab, package("pd-slow", "1.0"), package("pd-tool", "1.10"))
    assert run.status == 0, run.output
    assert (state(lab, "pd-slow"), state(lab, "pd-tool")) == ("1.0 ii", "1.10 ii")


@pytest.mark.usefixtures("before")
def test_a_package_that_others_came_to_need_is_left(lab: Lab) -> None:
    assert put(lab, package("pd-part", "1.0")).status == 0
    inside(lab, "h1", "apt-get install -qy pd-tool")
    run = play(lab, "destroy", {"h1": {"pdctl_delete": request(delete=["package:pd-part"])}})
    assert run.did("h1") == ["leave package pd-part: other packages need it"]
    inside(lab, "h1", "apt-get purge -qy pd-tool pd-part")
