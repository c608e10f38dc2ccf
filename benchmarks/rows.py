"""A lab -> the files and commands of every run that is compared."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.figures import Target, plan_problem, recap_problem

BENCHMARKS = Path(__file__).parent
CONVENTIONAL, RENDERED = "conventional playbook", "rendered project"
DIFF, APPLY, APPLY_ONLY = "pdctl diff", "pdctl apply", "pdctl apply --no-verify"
TARGETS = (
    Target(CONVENTIONAL, DIFF, 15),
    Target(CONVENTIONAL, APPLY_ONLY, 15),
    Target(CONVENTIONAL, APPLY, 15),
    Target(RENDERED, DIFF, 2),
    Target(RENDERED, APPLY_ONLY, 2),
    Target(RENDERED, APPLY, 2),
)
SPEC = """\
# {hosts} virtual hosts, about two instances of the engine simulator on each.
cluster: speed
ssh: {{config: ssh_config}}
hosts:
{rows}
engine: simulator
model: {{id: pdctl/tiny, served_name: tiny}}
serving:
  prefillers: {{count: {prefillers}}}
  decoders: {{count: {decoders}}}
  lmcache: {{chunk_size: 32}}
"""


@dataclass(frozen=True)
class Row:
    """One kind of run: the command that changes nothing, and what proves that it changed nothing."""

    name: str
    argv: tuple[str, ...]
    cwd: Path
    problem: Callable[[str], str | None]


@dataclass(frozen=True)
class Workplace:
    """Where the runs find their files. All commands run inside the lab's network."""

    folder: Path
    hosts: Mapping[str, str]  # name -> address

    @property
    def spec(self) -> Path:
        return self.folder / "cluster.yaml"

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory.json"

    @property
    def rendered(self) -> Path:
        return self.folder / "rendered"


def write_files(place: Workplace, lab_ssh_config: Path, vendor_key: Path) -> None:
    """The ssh configuration, the spec, and the conventional playbook's inventory."""
    config = place.folder / "ssh_config"
    config.write_text(inside_config(lab_ssh_config.read_text()))
    rows = "\n".join(f"  - {{name: {name}, address: {address}}}" for name, address in place.hosts.items())
    count = len(place.hosts)
    place.spec.write_text(
        SPEC.format(hosts=count, rows=rows, prefillers=max(1, count // 2), decoders=count + count // 2)
    )
    common = {"ansible_ssh_common_args": f"-F {config}", "vendor_key": str(vendor_key)}
    hosts = {name: {"ansible_host": address} for name, address in place.hosts.items()}
    place.inventory.write_text(json.dumps({"all": {"vars": common, "hosts": hosts}}, indent=1))


def inside_config(text: str) -> str:
    """The lab's ssh_config for programs inside its network, which need no proxy process for a connection."""
    return "".join(line for line in text.splitlines(keepends=True) if "Proxy" not in line.split(None, 1)[0])


def preparations(place: Workplace) -> tuple[Row, ...]:
    """What makes both sides' wishes true, once; the conventional playbook must succeed on new hosts."""

    def any_output(output: str) -> None:
        return None

    work = partial(Row, cwd=place.folder, problem=any_output)
    return (
        work("collect the bundle", (tool("pdctl"), "bundle", "simulator", "proxy")),
        Row(f"first {CONVENTIONAL}", _conventional(place), BENCHMARKS / "conventional", any_output),
        work(f"first {APPLY}", (tool("pdctl"), "apply", str(place.spec), "--yes")),
        work("render the project", (tool("pdctl"), "render", str(place.spec), "--out", str(place.rendered))),
        Row(f"first {RENDERED}", _rendered(), place.rendered, any_output),
    )


def compared(place: Workplace) -> tuple[Row, ...]:
    """The runs of one round, in order."""
    ansible = partial(Row, problem=partial(recap_problem, hosts=len(place.hosts)))
    pdctl = partial(Row, cwd=place.folder, problem=plan_problem)
    spec = str(place.spec)
    return (
        ansible(CONVENTIONAL, _conventional(place), cwd=BENCHMARKS / "conventional"),
        ansible(RENDERED, _rendered(), cwd=place.rendered),
        pdctl(DIFF, (tool("pdctl"), "diff", spec)),
        pdctl(APPLY_ONLY, (tool("pdctl"), "apply", spec, "--yes", "--no-verify")),
        pdctl(APPLY, (tool("pdctl"), "apply", spec, "--yes")),
    )


def tool(name: str) -> str:
    """A program of the environment that runs this."""
    return str(Path(sys.executable).parent / name)


def environment(folder: Path, control_paths: Path) -> dict[str, str]:
    """The same for every run: caches and state lie in `folder`, the user's Ansible has no say."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(control_paths),
        "PYTHONPYCACHEPREFIX": str(folder / "pycache"),
        "XDG_STATE_HOME": str(folder / "state"),
    }


def _conventional(place: Workplace) -> tuple[str, ...]:
    return (tool("ansible-playbook"), "-i", str(place.inventory), "site.yml")


def _rendered() -> tuple[str, ...]:
    return (tool("ansible-playbook"), "apply.yml")
