"""Plan -> what each host is asked to do: the host variables of playbooks/apply.yml. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pdctl.desired.layout import BUNDLE, record_path
from pdctl.plan.model import Plan, Restart, Step
from pdctl.state import Directory, File, Key, Package, Resource, State, Unit, User, Venv
from pdctl.state.codec import resource_to_json

# Each kind needs those before it: owners exist before their files, packages before runtimes.
ORDER: dict[type[Resource], int] = {User: 0, Directory: 1, Package: 3, File: 2, Venv: 4, Unit: 5}


@dataclass(frozen=True)
class Supply:
    """Files of the bundle, relative to it: wheels by `name==version`, debs by package."""

    wheels: Mapping[str, str]
    debs: Mapping[str, str]
    sizes: Mapping[str, int]
    folder: str  # on the controller


@dataclass(frozen=True)
class Meta:
    """What the record says about this apply."""

    applied_at: str
    by: str
    pdctl: str
    spec_digest: str

    def to_json(self) -> dict[str, str]:
        return {
            "applied_at": self.applied_at,
            "by": self.by,
            "pdctl": self.pdctl,
            "spec_digest": self.spec_digest,
        }


def host_variables(
    plan: Plan,
    desired: State,
    observed: State,
    meta: Meta,
    supply: Supply,
    present: Mapping[str, Mapping[str, int]],
) -> dict[str, dict[str, Any]]:
    """Variables by host; only what the plan says. `present` is what each host's bundle holds already."""
    found: dict[str, dict[str, Any]] = {}
    restarted = {Key(r.host, f"unit:{r.unit}"): r for r in plan.restarts}
    for step in plan.steps:
        for host, keys in by_host(step).items():
            request = _request(plan, meta, step, keys, desired, observed, restarted, supply)
            found.setdefault(host, {})[f"pdctl_{step.name}"] = request
    for host, variables in found.items():
        rows = variables.get("pdctl_put", {}).get("put", [])
        variables["pdctl_wheels"] = _missing(rows, supply, present.get(host, {}))
        variables["pdctl_bundle_src"] = supply.folder
        variables["pdctl_secrets"] = {
            row["path"]: dict(row["secret_env"]) for row in rows if row.get("secret_env")
        }
    return found


def groups(variables: Mapping[str, Mapping[str, Any]], plan: Plan) -> dict[str, list[str]]:
    """Ansible group of each step -> the hosts with work in it."""
    names = [f"pdctl_{step.name}" for step in plan.steps]
    return {name: sorted(host for host, v in variables.items() if name in v) for name in names}


def by_host(step: Step) -> dict[str, list[Key]]:
    found: dict[str, list[Key]] = {}
    for key in step.keys:
        found.setdefault(key.host, []).append(key)
    return found


def _request(
    plan: Plan,
    meta: Meta,
    step: Step,
    keys: Iterable[Key],
    desired: State,
    observed: State,
    restarted: Mapping[Key, Restart],
    supply: Supply,
) -> dict[str, Any]:
    request: dict[str, Any] = {
        "cluster": plan.cluster,
        "record": record_path(plan.cluster),
        "bundle": BUNDLE,
        "meta": meta.to_json(),
    }
    if step.name in ("stop", "delete"):
        return request | {"delete": [_gone(key, observed) for key in keys]}
    rows = [
        _row(desired[key], key in restarted, supply) for key in sorted(keys, key=lambda k: _rank(desired[k]))
    ]
    return request | {"put" if step.name == "put" else "units": rows}


def _rank(resource: Resource) -> tuple[int, str]:
    return ORDER[type(resource)], resource.id


def _row(resource: Resource, restart: bool, supply: Supply) -> dict[str, Any]:
    if isinstance(resource, Unit):
        resource = replace(resource, restart=restart)
    if isinstance(resource, Package) and resource.deb:
        resource = replace(resource, deb=supply.debs[resource.deb])
    return resource_to_json(resource, full=True)


def _gone(key: Key, observed: State) -> dict[str, Any]:
    have = observed.get(key)
    return resource_to_json(have) if have is not None else {"id": key.id, "kind": key.id.split(":", 1)[0]}


def _missing(rows: Iterable[Mapping[str, Any]], supply: Supply, present: Mapping[str, int]) -> list[str]:
    """Bundle files these rows need and the host lacks (or holds in another size)."""
    needed: set[str] = set()
    for row in rows:
        if row["kind"] == "venv" and row["wheels"]:
            needed |= {supply.wheels[name] for name in row["wheels"]} | {uv_wheel(supply)}
        elif row["kind"] == "file" and row.get("source"):
            needed.add(row["source"])
        elif row["kind"] == "package" and row.get("deb"):
            needed.add(row["deb"])
    return sorted(name for name in needed if present.get(name) != supply.sizes[name])


def uv_wheel(supply: Supply) -> str:
    """The installer, which every bundle holds."""
    return next(file for name, file in sorted(supply.wheels.items()) if name.startswith("uv=="))
