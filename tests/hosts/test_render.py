"""The rendered project: plain Ansible reaches the same state where pdctl does not exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pdctl.bench.script import bench_script
from pdctl.bundle.collect import default_folder
from tests.examples import spec_path, topology
from tests.hosts.line import CONFIG, HOSTS, Line, Ran, changed, line_on_hosts, unit
from tests.hosts.plays import listing

pytestmark = pytest.mark.hosts

RECAP = re.compile(r"^(\w+) +: ok=\d+ +changed=(\d+) +unreachable=(\d+) +failed=(\d+)", re.MULTILINE)


@dataclass
class Project:
    """A rendered project that was moved away, and a Python that has Ansible and lacks pdctl."""

    line: Line
    folder: Path
    python: Path
    home: Path
    before: dict[str, list[str]]

    def play(self, *words: str) -> Ran:
        self.line.broken = True
        done = subprocess.run(
            [self.python, "-m", "ansible", "playbook", *words],
            cwd=self.folder,
            env={"PATH": os.defpath, "HOME": str(self.home), "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr).must()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with line_on_hosts(tmp_path_factory, bound=False) as line:
        before = {host: listing(line.lab, host) for host in HOSTS}
        written = line.pdctl("render", "--out", "project", "--json").must().json
        folder = tmp_path_factory.mktemp("elsewhere") / "moved"
        (line.folder / "project").rename(folder)
        assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == set(
            written["files"]
        )
        yield Project(line, folder, python_without_pdctl(folder.parent), folder.parent / "home", before)


def python_without_pdctl(folder: Path) -> Path:
    """An environment with links to all packages of this one but pdctl."""
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv/bin/python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if "pdctl" not in package.name and not (site / package.name).exists():
            (site / package.name).symlink_to(package)
    tried = [python, "-P", "-c", "import ansible, pdctl"]
    done = subprocess.run(tried, cwd="/", env={}, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'pdctl'"
    return python


def recap(ran: Ran) -> dict[str, tuple[int, int, int]]:
    """Changed, unreachable and failed, by host."""
    return {m[1]: (int(m[2]), int(m[3]), int(m[4])) for m in RECAP.finditer(ran.out)}


def test_the_project_names_no_place_of_the_machine_it_was_made_on(project: Project) -> None:
    text = "".join((project.folder / name).read_text() for name in ("inventory.yml", "inventory-destroy.yml"))
    for place in (str(default_folder()), sys.prefix, str(Path(__file__).parents[2])):
        assert place not in text
    assert not [path for path in project.folder.rglob("*") if path.is_symlink()]


def test_plain_ansible_reaches_the_state_that_pdctl_wants(project: Project) -> None:
    ran = project.play("apply.yml")
    rows = recap(ran)
    assert rows.keys() == set(HOSTS)
    assert all(changes > 0 and unreachable == failed == 0 for changes, unreachable, failed in rows.values())
    assert project.line.diff()["empty"]
    assert project.line.pdctl("verify").must().status == 0


def test_the_second_run_changes_nothing(project: Project) -> None:
    project.play("apply.yml")
    lives = project.line.lives()
    assert recap(project.play("apply.yml")) == dict.fromkeys(HOSTS, (0, 0, 0))
    assert project.line.lives() == lives and project.line.diff()["empty"]


def test_the_project_repairs_drift_and_restarts_nothing_else(project: Project) -> None:
    project.play("apply.yml")
    lives = project.line.lives()
    nice = f"sed -i '/^\\[Service\\]/a Nice=5' /etc/systemd/system/{unit('decoder-1')}"
    project.line.inside(f"chmod 666 {CONFIG}/proxy.json; {nice}; systemctl daemon-reload")
    project.line.inside(f"systemctl restart {unit('decoder-1')}")
    project.line.inside(f"systemctl stop {unit('decoder-0')}", "h2")
    project.play("apply.yml")
    after = project.line.lives()
    assert changed(lives, after) == {"decoder-0", "decoder-1"}
    assert project.line.inside(f"cut -d ' ' -f 19 /proc/{after['decoder-1'].pid}/stat").strip() == "0"
    assert project.line.diff()["empty"]


def test_a_folder_with_something_in_it_is_refused(project: Project) -> None:
    (project.line.folder / "taken").mkdir()
    (project.line.folder / "taken/file").touch()
    ran = project.line.pdctl("render", "--out", "taken").must(1)
    assert ran.err == "error: taken exists and is not empty\nhint: name another folder with --out\n"


def test_destroy_from_the_project_leaves_the_hosts_as_they_were(project: Project) -> None:
    project.play("apply.yml")
    project.play("-i", "inventory-destroy.yml", "destroy.yml")
    for host in HOSTS:
        assert sorted(set(listing(project.line.lab, host)) ^ set(project.before[host])) == []
    again = recap(project.play("-i", "inventory-destroy.yml", "destroy.yml"))
    assert again == dict.fromkeys(HOSTS, (0, 0, 0))


def test_a_project_for_gpus_holds_the_script_for_vllms_bench_and_says_so(project: Project) -> None:
    spec = spec_path("hgx-h100-article")
    project.line.pdctl("render", str(spec), "--out", "gpus").must()
    script = project.line.folder / "gpus/bench/vllm-bench-serve.sh"
    assert script.read_bytes() == bench_script(topology("hgx-h100-article"))
    assert "sh bench/vllm-bench-serve.sh" in (project.line.folder / "gpus/README").read_text()
    assert "bench" not in (project.folder / "README").read_text()
