"""The peers that pdctl is compared with are what benchmarks/README.md says they are."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from benchmarks.repository import STUBS
from benchmarks.rows import BENCHMARKS, TARGETS, Workplace, compared, inside_config, write_files
from benchmarks.validate import import_times
from pdctl.lab.paths import lab_paths
from pdctl.lab.ssh import ssh_config
from pdctl.lab.state import Host
from pdctl.spec.load import load
from pdctl.topology import resolve

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
    assert sorted(wanted) == sorted(f"{stub.name}={stub.version}" for stub in STUBS)
    assert len(wanted) == 6


def test_the_spec_of_eight_hosts_is_valid_and_fills_them_with_two_instances_each(tmp_path: Path) -> None:
    place = Workplace(tmp_path, {f"h{n}": f"198.18.0.{9 + n}" for n in range(1, 9)})
    (tmp_path / "lab_config").write_text("Host h1\n  ProxyCommand x %h %p\n  User ops\n")
    write_files(place, tmp_path / "lab_config", tmp_path / "vendor.gpg")
    topology = resolve(load(place.spec))
    roles = [instance.role for instance in topology.instances]
    assert len(roles) == 16
    assert sorted({roles.count(role) for role in roles}) == [4, 12]
    assert topology.proxy.host == "h1"
    assert {instance.host for instance in topology.instances} == set(place.hosts)
    assert list(json.loads(place.inventory.read_text())["all"]["hosts"]) == list(place.hosts)


def test_inside_the_lab_no_connection_needs_a_proxy_process(tmp_path: Path) -> None:
    text = ssh_config(lab_paths(tmp_path), [Host("h1", 10)])
    inside = inside_config(text)
    assert "ProxyCommand" in text
    assert "Proxy" not in inside
    assert inside.count("\n") == text.count("\n") - 2


def test_every_target_compares_two_runs_of_the_same_round(tmp_path: Path) -> None:
    names = [row.name for row in compared(Workplace(tmp_path, {"h1": "198.18.0.10"}))]
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
