"""Deployment -> Draft: the values of a cluster.yaml, and every note on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pdctl.adopt.agreement import disagreements
from pdctl.adopt.apart import set_apart
from pdctl.adopt.deployment import Deployment, read_deployment
from pdctl.adopt.leftovers import leftovers
from pdctl.adopt.machines import engine_values, host_values, secret_values, ssh_values, stack_values
from pdctl.adopt.model import model_values
from pdctl.adopt.note import Kind, Note
from pdctl.adopt.observed import Seen
from pdctl.adopt.repair import repaired
from pdctl.adopt.serving import serving_values
from pdctl.adopt.shrink import shrunk
from pdctl.adopt.verdict import Problem, judge
from pdctl.knowledge.secrecy import REAL_TOKEN

CLUSTER = "adopted"


@dataclass(frozen=True)
class Draft:
    """`problems` are what pdctl would still refuse: empty, unless something is not known at all."""

    values: dict[str, Any]
    notes: tuple[Note, ...]
    deployment: Deployment
    problems: tuple[Problem, ...] = ()


def draft(hosts: Sequence[Seen], *, cluster: str | None = None, model: str | None = None) -> Draft:
    """What runs on `hosts`, as a spec. Raises HostError when nothing serves there."""
    deployment = read_deployment(hosts, model)
    values, notes = _all_pinned(deployment, cluster)
    values, more, problems = repaired(values)
    notes += more
    if topology := judge(values).topology:
        pools, more = leftovers(deployment, topology)
        for field, parts in pools.items():
            values["serving"][field] |= parts
        notes += more
        values, more, problems = repaired(values)
        notes += more
        values = shrunk(values, deployment)
    return Draft(_without_empty(values), tuple(_in_order(notes)), deployment, problems)


def _all_pinned(deployment: Deployment, cluster: str | None) -> tuple[dict[str, Any], list[Note]]:
    ssh, overrides = ssh_values(deployment.hosts)
    hosts, notes = host_values(deployment)
    for row in hosts:
        if row["name"] in overrides:
            row["ssh"] = overrides[row["name"]]
    stack, more = stack_values(deployment)
    model, model_notes = model_values(deployment)
    serving, serving_notes = serving_values(deployment)
    counts = {row["name"]: _count(row.get("gpus", 0)) for row in hosts}
    serving_notes += set_apart(serving, counts)
    secrets, secret_notes = secret_values(deployment)
    values = {
        "cluster": cluster or deployment.cluster or CLUSTER,
        "ssh": ssh,
        "hosts": hosts,
        "stack": stack,
        "engine": engine_values(deployment),
        "model": model,
        "serving": serving,
        "secrets": secrets,
    }
    notes = [*deployment.notes, *notes, *more, *model_notes, *serving_notes, *secret_notes]
    return _without_empty(values), notes + disagreements(deployment)


def _count(gpus: Any) -> int:
    return int(gpus["count"] if isinstance(gpus, dict) else gpus)


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    """Sections that say nothing are left out."""
    serving = {name: value for name, value in values["serving"].items() if value not in ({}, None)}
    return {n: v for n, v in (values | {"serving": serving}).items() if v not in ({}, None)}


def _in_order(notes: Sequence[Note]) -> list[Note]:
    """By kind, each told once."""
    kinds = list(Kind)
    told = (note._replace(text=_shut(note.text), original=_shut(note.original)) for note in notes)
    return sorted(dict.fromkeys(told), key=lambda note: kinds.index(note.kind))


def _shut(text: str) -> str:
    """Hosts keep secrets back already; should a token be here all the same, it ends here."""
    return re.sub(REAL_TOKEN, "***", text)
