"""Spec -> a self-contained Ansible project that reaches the same state without pdctl."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pdctl import __version__
from pdctl.apply.look import Look, wish
from pdctl.apply.playbook import APPLY, playbook
from pdctl.apply.removal import removal_groups, removal_variables
from pdctl.apply.requests import Supply, groups, host_variables, played
from pdctl.apply.run import inventory, order
from pdctl.apply.supply import supply_for
from pdctl.assets import assets
from pdctl.bench.script import NAME as BENCH_SCRIPT
from pdctl.bench.script import bench_script
from pdctl.errors import ApplyError
from pdctl.hosts.observation import Observation
from pdctl.plan import make_plan
from pdctl.topology.model import Topology

README = """Project of cluster `{cluster}`, written by pdctl {version}.

    ansible-playbook apply.yml      bring the hosts to the spec; a second run changes nothing
    ansible-playbook -i inventory-destroy.yml destroy.yml
                                    remove what apply.yml put there

It needs ansible-core 2.18 or 2.19 and nothing else. Secrets are read on this machine when a playbook runs.
"""
README_BENCH = """
    sh bench/{script}
                                    on a host with engines: a load by vLLM's own benchmark, through the proxy
"""


def write_project(
    topology: Topology, folder: Path, out: Path, bundle: Path | None, progress: Callable[[str], None]
) -> list[str]:
    """Write playbooks, inventory and the needed files of the bundle into `out`, which must be new or empty.

    The project is made beside it and moved into place, so that `out` is never half-written. Returns the
    files, relative to `out`.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ApplyError(f"{out} exists and is not empty", hint="name another folder with --out")
    seen = _from_nothing(topology, folder)
    supply = supply_for(seen, bundle, progress)
    new = out.with_name(out.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        _fill(new, seen, supply)
        if out.exists():
            out.rmdir()
        new.replace(out)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())


def _from_nothing(topology: Topology, folder: Path) -> Look:
    """The plan for hosts that hold nothing: the playbooks find out themselves what is there."""
    desired = wish(topology, folder)
    plan = make_plan(topology, desired, {}, {})
    return Look(topology, folder.absolute(), desired, Observation({}, {}, {}, {}, {}, {}, {}, {}), plan)


def _fill(new: Path, seen: Look, supply: Supply) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
    shutil.copytree(assets("playbooks"), new, ignore=ignored)
    local = replace(supply, folder="{{ playbook_dir }}/bundle")
    (new / APPLY).write_bytes(playbook(played(seen.plan)))
    variables = host_variables(order(seen, local))
    for file in sorted(set(_needed(variables))):
        target = new / "bundle" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(Path(supply.folder) / file, target)
    removal = removal_variables(replace(order(seen, local), observed=seen.desired))
    _write(new / "inventory.yml", inventory(seen, variables, groups(variables, seen.plan), root=False))
    _write(new / "inventory-destroy.yml", inventory(seen, removal, removal_groups(removal), root=False))
    readme = README.format(cluster=seen.topology.cluster, version=__version__)
    if script := bench_script(seen.topology):
        (new / "bench").mkdir()
        (new / "bench" / BENCH_SCRIPT).write_bytes(script)
        readme += README_BENCH.format(script=BENCH_SCRIPT)
    (new / "README").write_text(readme)


def _write(path: Path, inventory: dict[str, Any]) -> None:
    """JSON is YAML too, and Ansible reads these files as YAML."""
    path.write_text(json.dumps(inventory, indent=1) + "\n")


def _needed(variables: dict[str, dict[str, Any]]) -> Iterator[str]:
    for per_host in variables.values():
        yield from per_host.get("pdctl_wheels", ())


def _copy(source: Path, target: Path) -> None:
    """A hard link where the file system allows it: bundles are large."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)
