"""Plan -> what each host is asked to do: the host variables of playbooks/apply.yml. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pdctl.desired.layout import BUNDLE, record_path
from pdctl.plan.model import Owed, Plan, Step, StepKind
from pdctl.plan.reboot_request import reboot_request
from pdctl.plan.steps import PUT_TITLE
from pdctl.spec.places import beside
from pdctl.state import Directory, File, Key, Package, Resource, State, Unit, User, Venv, Weights
from pdctl.state.codec import resource_to_json

# Each kind needs those before it: owners exist before their files, apt's pins before packages.
ORDER: dict[type[Resource], int] = {
    User: 0,
    Directory: 1,
    File: 2,
    Package: 3,
    Venv: 4,
    Weights: 5,
    Unit: 6,
}
# What a step asks the module for; what is stopped or deleted are things that left the spec.
FIELD = {
    StepKind.PUT: "put",
    StepKind.UNITS: "units",
    StepKind.STOP: "delete",
    StepKind.DELETE: "delete",
    StepKind.REBOOT: "put",
}


@dataclass(frozen=True)
class Supply:
    """Files of the bundle, relative to it: wheels by hash, debs by package.

    A version alone names no wheel: hosts with different Pythons get different files of it.
    """

    wheels: Mapping[str, str]  # by `sha256:...`, as requirements have it
    debs: Mapping[str, str]
    sizes: Mapping[str, int]
    folder: str  # on the controller
    installer: str = ""  # uv's wheel
    manifests: Mapping[tuple[str, str], str] = field(default_factory=dict)  # of models, by id and revision


@dataclass(frozen=True)
class Meta:
    """What the record says about this apply."""

    applied_at: str
    by: str
    pdctl: str
    spec_digest: str


@dataclass(frozen=True)
class Order:
    """A plan with all that carrying it out needs."""

    plan: Plan
    desired: State
    observed: State
    meta: Meta
    supply: Supply
    present: Mapping[str, Mapping[str, int]]  # host -> what its bundle holds already, with sizes
    folder: Path  # files of secrets are named from here
    lease_s: float = 0.0  # how long KV may be wanted after a request
    drain_timeout_s: int = 600
    generation: int = 0
    token: str = ""  # of the lock that this is done under; hosts refuse one that is not theirs
    apt: Mapping[str, int] = field(default_factory=dict)  # how long the package manager may take
    downgrades: bool = False  # whether packages may become older
    reboot_timeout_s: int = 1800

    # Once for all hosts: each of 1,000 would go through thousands of them.
    @cached_property
    def changed(self) -> frozenset[Key]:
        return frozenset(change.key for change in self.plan.changes)

    @cached_property
    def restarted(self) -> frozenset[Key]:
        return frozenset(Key(restart.host, f"unit:{restart.unit}") for restart in self.plan.restarts)

    def restarts(self, key: Key) -> bool:
        """A host that was rebooted by then has started it anew, or not at all."""
        return key in self.restarted and key.host not in self.plan.reboots.hosts

    @cached_property
    def debts(self) -> Mapping[str, list[Owed]]:
        """By host."""
        found: dict[str, list[Owed]] = {}
        for debt in self.plan.owed:
            found.setdefault(debt.key.host, []).append(debt)
        return found


def host_variables(order: Order) -> dict[str, dict[str, Any]]:
    """Variables by host; only what the plan says.

    Requests are base64, since Ansible would read braces inside a plain one as a template.
    """
    found: dict[str, dict[str, Any]] = {}
    for step in order.plan.steps:
        for host, keys in by_host(step).items():
            variables = found.setdefault(host, {})
            variables[f"pdctl_{step.name}"] = encoded(order, _work(order, step, host, keys), step.title)
            if step.kind is StepKind.PUT:
                variables |= _deliveries(order, host, step, keys)
    for host in sorted(order.debts):
        # What is owed is written down before anything is stopped or started.
        found.setdefault(host, {}).setdefault("pdctl_put", encoded(order, {"put": []} | _owed(order, host)))
    return found


def played(plan: Plan) -> tuple[Step, ...]:
    """The plan's steps, and before them one that writes down the restarts that are owed."""
    if not plan.owed or any(step.kind is StepKind.PUT for step in plan.steps):
        return plan.steps
    return (Step("put", PUT_TITLE, (), StepKind.PUT), *plan.steps)


def groups(variables: Mapping[str, Mapping[str, Any]], plan: Plan) -> dict[str, list[str]]:
    """Ansible group of each step -> the hosts with work in it."""
    names = [f"pdctl_{step.name}" for step in played(plan)]
    return {name: sorted(host for host, v in variables.items() if name in v) for name in names}


def by_host(step: Step) -> dict[str, list[Key]]:
    found: dict[str, list[Key]] = {host: [] for host in step.hosts}
    for key in step.keys:
        found.setdefault(key.host, []).append(key)
    return found


def encoded(order: Order, work: dict[str, Any], step: str = "") -> str:
    """One request to one host: where its record is, who asks, and the work; `step` is for its journal."""
    request: dict[str, Any] = {
        "cluster": order.plan.cluster,
        "record": record_path(order.plan.cluster),
        "bundle": BUNDLE,
        "meta": asdict(order.meta),
    }
    if order.token:
        request |= {"generation": order.generation, "token": order.token, "step": step}
    request |= work
    return base64.b64encode(json.dumps(request).encode()).decode()


def _work(order: Order, step: Step, host: str, keys: list[Key]) -> dict[str, Any]:
    if step.kind is StepKind.DRAIN:
        return _drain(order, step, keys[0])
    if step.kind is StepKind.PUT:
        consent: dict[str, Any] = {"allow_downgrades": True} if order.downgrades else {}
        if any(isinstance(order.desired[key], Package) for key in keys):
            consent["apt"] = dict(order.apt)
        return {"put": _rows(order, step, keys)} | consent | _owed(order, host)
    if step.kind is StepKind.REBOOT:
        packages = [key for key in keys if isinstance(order.desired[key], Package)]
        asked = {"put": _rows(order, step, packages), "allow_downgrades": order.downgrades}
        told = reboot_request(order.plan, order.desired, host, keys, order.reboot_timeout_s)
        return asked | {"apt": dict(order.apt)} | told
    if step.kind is StepKind.UNITS:
        rows = _rows(order, step, keys)
        files = [row for row in rows if row["kind"] == "file"]
        return {"units": rows[len(files) :]} | ({"put": files} if files else {})
    # What stays in the spec is only stopped for now.
    halt = [k.id.removeprefix("unit:") for k in keys if step.kind is StepKind.STOP and k in order.desired]
    rows = _rows(order, step, [k for k in keys if step.kind is not StepKind.STOP or k not in order.desired])
    return {FIELD[step.kind]: rows} | ({"halt": halt} if halt else {})


def _drain(order: Order, step: Step, proxy: Key) -> dict[str, Any]:
    unit = order.desired[proxy]
    assert isinstance(unit, Unit)
    return {
        "control": unit.control,
        "drain": list(step.drain),
        "undrain": list(step.undrain),
        "sides": None if step.sides is None else list(step.sides),
        "reload": step.reload,
        "others": step.others,  # a plan relies on another one that serves: the host sees whether it does
        "lease_s": order.lease_s,
        "timeout_s": order.drain_timeout_s,
    }


def _rows(order: Order, step: Step, keys: Iterable[Key]) -> list[dict[str, Any]]:
    if FIELD[step.kind] == "delete":
        return [_gone(key, order.observed) for key in keys]
    ordered = sorted(keys, key=lambda key: (ORDER[type(order.desired[key])], key))
    return [_row(order.desired[key], order.restarts(key), order.supply) for key in ordered]


def _owed(order: Order, host: str) -> dict[str, Any]:
    """The restarts owed on this host, as its record keeps them."""
    found: dict[str, dict[str, Any]] = {}
    for debt in order.debts.get(host, ()):
        had = found.setdefault(debt.key.id, {"invocation": debt.invocation, "causes": [], "peers": []})
        had["causes"] += debt.causes
        had["peers"] += debt.peers
    return {"owed": found} if found else {}


def _row(resource: Resource, restart: bool, supply: Supply) -> dict[str, Any]:
    if isinstance(resource, Unit):
        resource = replace(resource, restart=restart)
    if isinstance(resource, Package) and resource.deb and resource.deb in supply.debs:
        resource = replace(resource, deb=supply.debs[resource.deb])
    if isinstance(resource, Weights):
        manifest = supply.manifests.get((resource.repo, resource.revision), "")
        resource = replace(resource, manifest=manifest)
    return resource_to_json(resource, full=True)


def _gone(key: Key, observed: State) -> dict[str, Any]:
    have = observed.get(key)
    return resource_to_json(have) if have is not None else {"id": key.id, "kind": key.id.split(":", 1)[0]}


def _deliveries(order: Order, host: str, step: Step, keys: list[Key]) -> dict[str, Any]:
    # What only the record has to learn is there already.
    made = _rows(order, step, [key for key in keys if key in order.changed])
    found: dict[str, Any] = {
        "pdctl_wheels": _missing(made, order.supply, order.present.get(host, {})),
        "pdctl_bundle_src": order.supply.folder,
    }
    secrets = {
        row["path"]: _sources(row["secret_env"], order.folder)
        for row in _rows(order, step, keys)
        if row.get("secret")
    }
    if any(row["kind"] == "weights" for row in made):
        found["pdctl_weights"] = True
    return found | ({"pdctl_secrets": secrets} if secrets else {})


def _sources(secret_env: Iterable[tuple[str, str]], folder: Path) -> dict[str, str]:
    """`file:` sources made absolute, so that the working directory does not matter."""
    return {
        name: f"file:{beside(folder, source[5:])}" if source.startswith("file:") else source
        for name, source in secret_env
    }


def _missing(rows: Iterable[Mapping[str, Any]], supply: Supply, present: Mapping[str, int]) -> list[str]:
    """Bundle files these rows need and the host lacks, or holds in another size."""
    needed: set[str] = set()
    for row in rows:
        if row["kind"] == "venv":
            needed |= {_wheel(line, supply) for line in row["requirements"] if row["wheels"]}
            needed.add(supply.installer)
        elif row["kind"] == "file" and row["source"]:
            needed.add(row["source"])
        elif row["kind"] == "package" and row["deb"]:
            needed.add(row["deb"])
    return sorted(name for name in needed if present.get(name) != supply.sizes[name])


def _wheel(requirement: str, supply: Supply) -> str:
    """The bundle's file of a locked line; several hashes are builds of which one is there."""
    hashes = [word.removeprefix("--hash=") for word in requirement.split()[1:]]
    return next(supply.wheels[each] for each in hashes if each in supply.wheels)
