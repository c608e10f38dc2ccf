"""docs/json.md tells every field of the documents, and every command outside the lab has `--json`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from pdctl.apply.history import Past, history_document
from pdctl.cli.main import app
from pdctl.cli.spec import topology_document
from pdctl.hosts.observation import Generation, Kept
from pdctl.plan.document import drift_document, plan_document
from pdctl.plan.foreign import Foreign
from pdctl.plan.make import make_plan
from pdctl.plan.targets import Pulled, Selection, Targets
from pdctl.topology.model import Role
from pdctl.verify.health import Health
from pdctl.verify.proof import Exchange, Proof, Transfer, proof_document
from pdctl.verify.status import status_document
from tests.examples import topology
from tests.plan.changes import SPEC, edit
from tests.views.screens import told

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "json.md").read_text() + (DOCS / "plan.md").read_text().replace("\n### ", "\n## ")
NAMES = ("lab-simulator", "two-hosts-xpyd", "lab-aggregated")


def fields(value: Any) -> set[str]:
    """Every key in a document, but those that are names of the user's."""
    if isinstance(value, list):
        return {name for item in value for name in fields(item)}
    if not isinstance(value, dict):
        return set()
    inner = {name for key, item in value.items() if key not in ("versions", "pins") for name in fields(item)}
    return set(value) | inner


def untold(document: dict[str, Any]) -> set[str]:
    section = PAGE.split(f"## {document['format']}\n")[1].split("\n## ")[0]
    return fields(document) - set(re.findall(r"`(?:[a-z]+\[\]\.)?([a-z_0-9]+)(?:\[\])?`", section))


@pytest.mark.parametrize("name", NAMES)
def test_the_topology_is_told(name: str) -> None:
    assert untold(topology_document(topology(name))) == set()


@pytest.mark.parametrize("name", NAMES)
def test_the_status_is_told(name: str) -> None:
    here = topology(name)
    health = {i.name: Health(True, "") for i in here.instances} | {"proxy": Health(True, "")}
    plan = make_plan(here, {}, {}, {}, unreachable={})
    assert untold(status_document(here, {}, plan, health)) == set()


def test_the_proof_is_told() -> None:
    exchange = Exchange(8, "x", "x", "prefiller-0", "decoder-0")
    proof = Proof("disaggregated", (exchange,), Transfer(1, 1, "counter"), "decoder-0", {}, False)
    assert untold(proof_document(proof)) == set()


def test_the_plan_is_told() -> None:
    done = edit(("count: 2\n    max", "count: 3\n    max"), ("64", "128"), spec=SPEC)
    foreign = Foreign("port", "7200", "decoder-0", "h1", 9, "nginx", "root")
    pulled = Pulled("h1", "proxy", "its list tells of decoder-2", frozenset(done.plan.steps[0].keys))
    selection = Selection(Targets(instances=("decoder-2",)), frozenset(), (pulled,), (pulled,))
    details = replace(told(done), foreign=(foreign,), selection=selection)
    assert untold(plan_document(done.plan, details)) - {role.value for role in Role} == set()
    assert (
        untold(drift_document(done.plan, details)) - {"host", "kind", "subject", "instance", "pid", "what"}
        == set()
    )


def test_the_history_is_told() -> None:
    one = Generation(1, "complete", "2030-01-02T03:04:05+00:00", "ann@desk", "1.0", "create 3")
    document = history_document(Past("sim", {"host": Kept(generations=(one,))}, {}))
    assert untold(document) == {"host"}


def test_a_field_that_is_not_told_is_found() -> None:
    assert untold({"format": "pdctl-proof/1", "ok": True, "hosts": [{"nonsense": 1}]}) == {
        "hosts",
        "nonsense",
    }


def test_every_format_has_a_section() -> None:
    sources = "".join(p.read_text() for p in (Path(__file__).parents[2] / "pdctl").rglob("*.py"))
    formats = set(re.findall(r'"(pdctl-[a-z]+/\d)"', sources))
    assert len(formats) >= 7
    assert {name for name in formats if f"## {name}\n" not in PAGE} == {"pdctl-control/1"}  # docs/proxy.md


def test_every_command_outside_the_lab_has_json() -> None:
    commands: Any = typer.main.get_command(app)
    without = [
        name
        for name, command in commands.commands.items()
        if name != "lab" and not any("--json" in parameter.opts for parameter in command.params)
    ]
    assert without == [] and len(commands.commands) > 12
