"""The peers that pdctl is compared with are what benchmarks/README.md says they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from benchmarks.peers import LOCK, pyinfra_version
from benchmarks.repository import STUBS
from benchmarks.rows import (
    AFTER,
    BEFORE,
    BENCHMARKS,
    TARGETS,
    Workplace,
    changed,
    inside_config,
    unchanged,
    write_peers,
    write_specs,
)
from benchmarks.validate import import_times
from pdctl.desired import desire
from pdctl.lab.paths import lab_paths
from pdctl.lab.ssh import ssh_config
from pdctl.lab.state import Host
from pdctl.spec.load import load
from pdctl.state import difference
from pdctl.topology import resolve
from pdctl.topology.model import Role

CONVENTIONAL = BENCHMARKS / "conventional"


def playbook() -> dict:
    (play,) = yaml.safe_load((CONVENTIONAL / "site.yml").read_text())
    return play


def test_the_conventional_playbook_has_40_to_46_tasks_and_all_its_templates() -> None:
    tasks = playbook()["tasks"]
    assert 40 <= len(tasks) <= 46
    templates = [task["ansible.builtin.template"] for task in tasks if "ansible.builtin.template" in task]
    assert len([t for t in templates if t["dest"].startswith("/etc/gpuhost/")]) == 8
    for template in templates:
        assert (CONVENTIONAL / "templates" / template["src"]).is_file()


def test_it_uses_ansible_as_shipped_with_pipelining_and_a_fork_for_every_host() -> None:
    modules = {key for task in playbook()["tasks"] for key in task if "." in key}
    assert all(name.startswith("ansible.builtin.") for name in modules)
    config = (CONVENTIONAL / "ansible.cfg").read_text()
    assert "pipelining = True" in config
    assert "forks = 64" in config
    assert "ControlPersist" in config


def test_every_package_it_installs_is_in_the_repository_in_that_version() -> None:
    play = playbook()
    (names,) = [
        t["ansible.builtin.apt"]["name"] for t in play["tasks"] if "name" in t.get("ansible.builtin.apt", {})
    ]
    wanted = [name.replace("{{ driver }}", play["vars"]["driver"]) for name in names]
    assert set(wanted) <= {f"{stub.name}={stub.version}" for stub in STUBS}
    assert len(wanted) == 6


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """Eight hosts, with everything that the runs read."""
    place = Workplace(tmp_path, {f"h{n}": f"198.18.0.{9 + n}" for n in range(1, 9)})
    (tmp_path / "lab_config").write_text("Host h1\n  ProxyCommand x %h %p\n  User ops\n")
    write_specs(place, tmp_path / "lab_config")
    write_peers(place, tmp_path / "vendor.gpg")
    return place


def test_the_spec_of_eight_hosts_is_valid_and_puts_a_decoder_on_each(place: Workplace) -> None:
    topology = resolve(load(place.spec()))
    decoders = topology.of(Role.DECODER)
    assert len(topology.instances) == 12
    assert sorted(instance.host for instance in decoders) == sorted(place.hosts)
    assert list(json.loads(place.inventory.read_text())["all"]["hosts"]) == list(place.hosts)


def test_the_change_is_one_line_that_restarts_the_decoder_of_every_host_and_nothing_else(
    place: Workplace,
) -> None:
    before, after = (place.spec(value).read_text().splitlines() for value in (BEFORE, AFTER))
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1
    old, new = (desire(resolve(load(place.spec(value)))) for value in (BEFORE, AFTER))
    touched = [key for key in old if difference(new[key], old[key])]
    assert old.keys() == new.keys()
    assert sorted({key.host for key in touched}) == sorted(place.hosts)
    assert all("decoder" in key.id for key in touched)
    assert len([key for key in touched if key.id.startswith("unit:")]) == 8


def test_pyinfra_gets_all_that_pdctl_wants_on_every_host(place: Workplace) -> None:
    desired = desire(resolve(load(place.spec(AFTER))))
    hosts = json.loads(place.rows(AFTER).read_text())
    assert {(host["name"], row["id"]) for host in hosts for row in host["data"]["rows"]} == set(desired)
    files = [row for host in hosts for row in host["data"]["rows"] if row["kind"] == "file"]
    assert files and all(row["content"] for row in files)


def test_pyinfra_is_pinned_with_a_hash_for_every_wheel() -> None:
    lines = LOCK.read_text().splitlines()
    pins = [line for line in lines if line[0].isalpha()]
    assert f"pyinfra=={pyinfra_version()} \\" in pins
    assert all("==" in pin and pin.endswith("\\") for pin in pins)
    assert all(line.strip().startswith("--hash=sha256:") for line in lines if line not in pins)


def test_inside_the_lab_no_connection_needs_a_proxy_process(tmp_path: Path) -> None:
    text = ssh_config(lab_paths(tmp_path), [Host("h1", 10)])
    inside = inside_config(text)
    assert "ProxyCommand" in text
    assert "Proxy" not in inside
    assert inside.count("\n") == text.count("\n") - 2


def test_every_target_compares_two_runs_of_the_same_round(tmp_path: Path) -> None:
    place = Workplace(tmp_path, {"h1": "198.18.0.10"})
    names = [row.name for row in (*unchanged(place), *changed(place, 1))]
    assert len(set(names)) == len(names)
    assert {name for target in TARGETS for name in (target.peer, target.row)} == set(names)


def test_a_module_of_python_counts_for_the_library_that_loads_it() -> None:
    text = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:      1000 |       1000 | site\n"
        "import time:       300 |        300 |     email\n"
        "import time:       200 |        500 |   pydantic.plugin\n"
        "import time:       100 |        600 | pydantic\n"
        "import time:        50 |         50 |   typer._click\n"
        "import time:        10 |         60 | pdctl.cli.main\n"
    )
    times = import_times(text)
    assert {name: round(value, 3) for name, value in times.items()} == {
        "python": 1.0,
        "pydantic": 0.6,
        "typer": 0.05,
        "pdctl": 0.01,
    }
