"""The oldest ansible-core that pdctl takes reads our playbooks, and changes hosts as the newest does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pdctl.assets import assets
from pdctl.bundle.collect import Runtime, collect, default_folder
from pdctl.hosts.ansible import SUPPORTED
from tests.hosts.cluster import DESTROY, TOKEN, Cluster, cluster_on_hosts
from tests.hosts.line import HOSTS, Line
from tests.hosts.plays import play

pytestmark = pytest.mark.hosts

OLDEST = ".".join(map(str, SUPPORTED[0])) + ".0"
GOLDEN = Path(__file__).parents[1] / "golden" / "playbooks" / "apply.yml"
PRESENT = (sys.executable, "-m", "ansible", "playbook")


@dataclass(frozen=True)
class Oldest:
    """An environment with that ansible-core and what it needs, and nothing else."""

    python: Path
    packages: Path

    @property
    def playbook(self) -> tuple[str, ...]:
        return (str(self.python), "-m", "ansible", "playbook")


@pytest.fixture(scope="module")
def oldest() -> Oldest:
    """Made once for each Python and kept beside the bundle, where those of other versions go."""
    name = f"ansible-core-{OLDEST}-py{sys.version_info.major}.{sys.version_info.minor}"
    kept = default_folder().parent / "ansible"
    for other in kept.glob("*"):
        if other.name != name:
            shutil.rmtree(other)
    if not (kept / name).exists():
        venv.create(new := kept / f"{name}.new", symlinks=True)
        install = ["-m", "pip", "--python", new, "install", "-q", "--disable-pip-version-check"]
        subprocess.run([sys.executable, *install, f"ansible-core=={OLDEST}"], check=True, timeout=300)
        new.rename(kept / name)
    packages = sysconfig.get_path("purelib", vars={"base": str(kept / name)})
    return Oldest(kept / name / "bin" / "python", Path(packages))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_on_hosts(tmp_path_factory) as cluster:
        yield cluster


def test_it_is_the_oldest_and_alone(oldest: Oldest) -> None:
    done = subprocess.run([*oldest.playbook, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"ansible-playbook [core {OLDEST}]"), done.stdout
    assert not list(oldest.packages.glob("*pdctl*"))


@pytest.mark.parametrize("name", ["apply.yml", "destroy.yml"])
@pytest.mark.parametrize("version", ["oldest", "present"])
def test_playbooks_pass_the_syntax_check(oldest: Oldest, version: str, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "playbooks"
    shutil.copytree(assets("playbooks"), folder, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    shutil.copy(GOLDEN, folder)
    done = subprocess.run(
        [*(oldest.playbook if version == "oldest" else PRESENT), "-i", "h1,", "--syntax-check", name],
        cwd=folder,
        env={"PATH": os.defpath, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, f"playbook: {name}"), done.stderr
    # That no host is in a group of a step is all there is to say.
    assert [line for line in done.stderr.splitlines() if "host pattern" not in line] == []


def test_its_conditions_hold_when_a_cluster_is_put_and_put_again(oldest: Oldest, cluster: Cluster) -> None:
    env = {"PDCTL_TEST_TOKEN": TOKEN, "ANSIBLE_DEPRECATION_WARNINGS": "1"}
    first = play(cluster.lab, "apply", cluster.variables(), env=env, program=oldest.playbook)
    assert first.status == 0 and first.did("h1") and first.did("h2"), first.output
    assert "DEPRECATION" not in first.output and "Put secret files" in first.output
    again = play(cluster.lab, "apply", cluster.variables(), env=env, program=oldest.playbook)
    assert again.status == 0 and again.did("h1") == again.did("h2") == [], again.output
    gone = play(cluster.lab, "destroy", DESTROY, program=oldest.playbook)
    assert gone.status == 0 and cluster.changes() == [], gone.output


def test_pdctl_works_with_it_from_apply_to_destroy(
    oldest: Oldest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its packages come before those of this environment, in pdctl and in the ansible-playbook it starts."""
    env = {"PYTHONPATH": str(oldest.packages)}
    said = [sys.executable, "-c", "from importlib.metadata import version as v; print(v('ansible-core'))"]
    assert subprocess.check_output(said, env=env | {"PATH": os.defpath}, text=True).strip() == OLDEST
    collect([Runtime("simulator", "3.11"), Runtime("proxy", "3.11")], default_folder())
    line = Line(cluster.lab, tmp_path_factory.mktemp("line"))
    line.write()
    line.pdctl("apply", "--yes", "--no-verify", env=env).must()
    assert line.diff()["empty"]
    line.pdctl("destroy", "--yes", env=env).must()
    assert all(not line.inside("ls /etc/pdctl 2> /dev/null || true", host) for host in HOSTS)
