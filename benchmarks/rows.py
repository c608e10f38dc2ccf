"""A lab -> the files and commands of every run that is compared."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.figures import Target, peer_problem, plan_problem, recap_problem
from benchmarks.peers import DEPLOY, write_rows

BENCHMARKS = Path(__file__).parent
CONVENTIONAL, RENDERED, PYINFRA = "conventional playbook", "rendered project", "pyinfra"
DIFF, APPLY, APPLY_ONLY = "pdctl diff", "pdctl apply", "pdctl apply --no-verify"
LINE = ", one line"  # what the runs are called that carry out the change
TARGETS = (
    *(Target(CONVENTIONAL, row, 20) for row in (DIFF, APPLY_ONLY, APPLY)),
    *(Target(peer, row, 1) for peer in (RENDERED, PYINFRA) for row in (DIFF, APPLY_ONLY, APPLY)),
    *(Target(CONVENTIONAL + LINE, row + LINE, 4) for row in (APPLY_ONLY, APPLY)),
    *(Target(peer + LINE, APPLY_ONLY + LINE, None) for peer in (RENDERED, PYINFRA)),
)
# The line that changes: a variable of all decoders, one of which runs on each host.
BEFORE, AFTER = "INFO", "DEBUG"
VARIABLE = "VLLM_LOGGING_LEVEL"
SPEC = """\
# {hosts} virtual hosts with the engine simulator: a decoder on each, a prefiller on every second one.
cluster: speed
ssh: {{config: ssh_config}}
hosts:
{rows}
engine: simulator
model: {{id: pdctl/tiny, served_name: tiny}}
serving:
  prefillers: {{count: {prefillers}}}
  decoders: {{count: {decoders}, env: {{{variable}: {value}}}}}
  lmcache: {{chunk_size: 32}}
  # As the peers do it: all at once, as far as something goes on serving.
  rollout: {{canary: 0, max_unavailable: 100%}}
"""
RUNNING = (
    "for unit in $(systemctl list-units --plain --no-legend 'pdctl-speed-decoder-*' | cut -d' ' -f1); do"
    " pid=$(systemctl show --property MainPID --value $unit); tr '\\0' '\\n' </proc/$pid/environ"
    f" | sed -n s/^{VARIABLE}=//p; done"
)
EXPORTED = (
    "/usr/bin/python3 -c 'import urllib.request as u;"
    ' print(u.urlopen("http://127.0.0.1:18081/driver.conf").read().decode())\''
    + " | sed -n 's/^persistence = //p'"
)


@dataclass(frozen=True)
class Row:
    """One kind of run: the command, and what proves that it did what it should have done, or nothing.

    `evidence` is a command for a host's root shell, and the line that it must print there.
    """

    name: str
    argv: tuple[str, ...]
    cwd: Path
    problem: Callable[[str], str | None]
    env: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[str, str] | None = None


@dataclass(frozen=True)
class Workplace:
    """Where the runs find their files. All commands run inside the lab's network."""

    folder: Path
    hosts: Mapping[str, str]  # name -> address

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory.json"

    @property
    def ssh_config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def pyinfra(self) -> Path:
        """Its environment."""
        return self.folder / "pyinfra"

    def spec(self, value: str = BEFORE) -> Path:
        return self.folder / f"cluster-{value}.yaml"

    def rendered(self, value: str = BEFORE) -> Path:
        return self.folder / f"rendered-{value}"

    def rows(self, value: str = BEFORE) -> Path:
        return self.folder / f"rows-{value}.json"


def write_specs(place: Workplace, lab_ssh_config: Path) -> None:
    """The ssh configuration, and the spec as it is before and after the change."""
    place.ssh_config.write_text(inside_config(lab_ssh_config.read_text()))
    rows = "\n".join(f"  - {{name: {name}, address: {address}}}" for name, address in place.hosts.items())
    count = len(place.hosts)
    counts = {"hosts": count, "prefillers": max(1, count // 2), "decoders": count}
    for value in (BEFORE, AFTER):
        place.spec(value).write_text(SPEC.format(rows=rows, variable=VARIABLE, value=value, **counts))


def write_peers(place: Workplace, vendor_key: Path) -> None:
    """The inventories of the conventional playbook and of pyinfra."""
    common = {"ansible_ssh_common_args": f"-F {place.ssh_config}", "vendor_key": str(vendor_key)}
    hosts = {name: {"ansible_host": address} for name, address in place.hosts.items()}
    place.inventory.write_text(json.dumps({"all": {"vars": common, "hosts": hosts}}, indent=1))
    for value in (BEFORE, AFTER):
        write_rows(place.spec(value), place.hosts, place.ssh_config, place.rows(value))


def inside_config(text: str) -> str:
    """The lab's ssh_config for programs inside its network, which need no proxy process for a connection."""
    return "".join(line for line in text.splitlines(keepends=True) if "Proxy" not in line.split(None, 1)[0])


def preparations(place: Workplace) -> tuple[Row, ...]:
    """What makes both sides' wishes true, once; the conventional playbook must succeed on new hosts."""
    work = partial(Row, cwd=place.folder, problem=_any)
    return (
        Row(f"first {CONVENTIONAL}", _conventional(place), BENCHMARKS / "conventional", _any),
        *first_apply(place),
        *(
            work(
                f"render the project ({value})",
                (tool("pdctl"), "render", str(place.spec(value)), "--out", str(place.rendered(value))),
            )
            for value in (BEFORE, AFTER)
        ),
        Row(f"first {RENDERED}", _rendered(), place.rendered(), _any),
        # It must find that pdctl has left nothing to do: then both mean the same.
        _pyinfra(place, f"first {PYINFRA}", partial(peer_problem, changes=False)),
    )


def first_apply(place: Workplace) -> tuple[Row, ...]:
    return (
        Row("collect the bundle", (tool("pdctl"), "bundle", "simulator", "proxy"), place.folder, _any),
        Row(f"first {APPLY}", _apply(place, BEFORE), place.folder, _any),
    )


def unchanged(place: Workplace) -> tuple[Row, ...]:
    """The runs of one round that find nothing to do, in order."""
    ansible = partial(Row, problem=partial(recap_problem, hosts=len(place.hosts)))
    return (
        ansible(CONVENTIONAL, _conventional(place), cwd=BENCHMARKS / "conventional"),
        ansible(RENDERED, _rendered(), cwd=place.rendered()),
        _pyinfra(place, PYINFRA, partial(peer_problem, changes=False)),
        *idle_pdctl(place),
        Row(APPLY, _apply(place, BEFORE), place.folder, plan_problem),
    )


def idle_pdctl(place: Workplace) -> tuple[Row, ...]:
    pdctl = partial(Row, cwd=place.folder, problem=plan_problem)
    return (
        pdctl(DIFF, (tool("pdctl"), "diff", str(place.spec()))),
        pdctl(APPLY_ONLY, _apply(place, BEFORE, "--no-verify")),
    )


def changed(place: Workplace, number: int) -> tuple[Row, ...]:
    """The runs of round `number` that carry out the change, each undoing what the one before it did."""
    persistence = ("on", "off")[number % 2]
    hosts = len(place.hosts)
    ansible = partial(recap_problem, hosts=hosts, changes=True)
    running = {value: (RUNNING, value) for value in (BEFORE, AFTER)}
    return (
        Row(
            CONVENTIONAL + LINE,
            (*_conventional(place), "-e", f"persistence={persistence}"),
            BENCHMARKS / "conventional",
            ansible,
            evidence=(EXPORTED, persistence),
        ),
        changed_pdctl(place, AFTER),
        Row(RENDERED + LINE, _rendered(), place.rendered(BEFORE), ansible, evidence=running[BEFORE]),
        _pyinfra(place, PYINFRA + LINE, partial(peer_problem, changes=True), AFTER),
        Row(APPLY + LINE, _apply(place, BEFORE), place.folder, _any, evidence=running[BEFORE]),
    )


def changed_pdctl(place: Workplace, value: str) -> Row:
    """Without the proof of service, which the peers do not give either."""
    argv = _apply(place, value, "--no-verify")
    return Row(APPLY_ONLY + LINE, argv, place.folder, _any, evidence=(RUNNING, value))


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


def _any(output: str) -> None:
    """The exit status and the evidence are enough."""


def _apply(place: Workplace, value: str, *more: str) -> tuple[str, ...]:
    return (tool("pdctl"), "apply", str(place.spec(value)), "--yes", *more)


def _conventional(place: Workplace) -> tuple[str, ...]:
    return (tool("ansible-playbook"), "-i", str(place.inventory), "site.yml")


def _rendered() -> tuple[str, ...]:
    return (tool("ansible-playbook"), "apply.yml")


def _pyinfra(place: Workplace, name: str, problem: Callable[[str], str | None], value: str = BEFORE) -> Row:
    program = place.pyinfra / "bin" / "pyinfra"
    return Row(
        name,
        (str(program), "-y", "--parallel", "64", "inventory.py", "deploy.py"),
        DEPLOY,
        problem,
        env={"PEER_ROWS": str(place.rows(value))},
        evidence=(RUNNING, value),
    )
