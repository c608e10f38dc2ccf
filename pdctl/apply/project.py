"""Spec -> a self-contained Ansible project that reaches the same state without pdctl."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from pdctl.desired import desire
from pdctl.errors import ApplyError, SpecError
from pdctl.hosts.ansible_vars import literal
from pdctl.hosts.observation import Observation
from pdctl.plan import make_plan
from pdctl.topology.model import Topology

# The bundle of a project lies beside its playbooks, wherever that is.
BUNDLE_BESIDE = "{{ playbook_dir }}/bundle"
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
    try:
        taken = out.exists() and (not out.is_dir() or any(out.iterdir()))
        taken |= out.is_symlink() and not out.exists()
    except OSError as error:
        raise ApplyError(f"{out} cannot be used: {error.strerror}", hint="name another with --out") from None
    if taken:
        raise ApplyError(f"{out} exists and is not empty", hint="name another folder with --out")
    seen = _from_nothing(topology, folder, progress)
    supply = supply_for(seen, bundle, progress)
    with _beside(out) as new:
        _fill(new, seen, supply)
        if out.exists():
            out.rmdir()
        new.replace(out)
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())


@contextmanager
def _beside(out: Path) -> Iterator[Path]:
    """A new place on the same file system, of a name that nobody has; gone at the end unless it was moved."""
    try:
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.absolute().parent))
    except OSError as error:
        raise ApplyError(
            f"{out} cannot be made: {error.strerror}", hint="name another folder with --out"
        ) from None
    try:
        yield place / "project"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _from_nothing(topology: Topology, folder: Path, progress: Callable[[str], None]) -> Look:
    """The plan for hosts that hold nothing: the playbooks find out themselves what is there.

    Nothing of a secret is written, so one that is not here is no obstacle: the playbooks read it.
    """
    try:
        desired = wish(topology, folder)
    except SpecError as error:
        progress(
            f"warning: {error}; the playbooks read it when they run, and the next `pdctl apply` restarts the"
            " engines that they started"
        )
        desired = desire(topology)
    plan = make_plan(topology, desired, {}, {})
    return Look(topology, folder.absolute(), desired, Observation({}, {}, {}, {}, {}, {}, {}, {}), plan)


def _fill(new: Path, seen: Look, supply: Supply) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
    shutil.copytree(assets("playbooks"), new, ignore=ignored)
    local = replace(supply, folder=BUNDLE_BESIDE)
    (new / APPLY).write_bytes(playbook(played(seen.plan)))
    variables = host_variables(order(seen, local))
    for file in sorted(set(_needed(variables))):
        target = new / "bundle" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(Path(supply.folder) / file, target)
    removal = removal_variables(replace(order(seen, local), observed=seen.desired))
    write_inventory(
        new / "inventory.yml", inventory(seen, variables, groups(variables, seen.plan), root=False)
    )
    write_inventory(
        new / "inventory-destroy.yml", inventory(seen, removal, removal_groups(removal), root=False)
    )
    readme = README.format(cluster=seen.topology.cluster, version=__version__)
    if script := bench_script(seen.topology):
        (new / "bench").mkdir()
        (new / "bench" / BENCH_SCRIPT).write_bytes(script)
        readme += README_BENCH.format(script=BENCH_SCRIPT)
    (new / "README").write_text(readme)


def write_inventory(path: Path, inventory: dict[str, Any]) -> None:
    """JSON is YAML too, and Ansible takes it for what it is. Words of the spec are no templates to it, which
    would run on this machine; the one template here is ours."""
    marked = literal(inventory)
    for variables in marked["all"]["hosts"].values():
        if "pdctl_bundle_src" in variables:
            variables["pdctl_bundle_src"] = BUNDLE_BESIDE
    path.write_text(json.dumps(marked, indent=1) + "\n")


def _needed(variables: dict[str, dict[str, Any]]) -> Iterator[str]:
    for per_host in variables.values():
        yield from per_host.get("pdctl_wheels", ())


def _copy(source: Path, target: Path) -> None:
    """A hard link where the file system allows it: bundles are large."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)
