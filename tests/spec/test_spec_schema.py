"""The committed schema and reference are those of the model, and the schema takes what the model takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pdctl.errors import ErrorGroup
from pdctl.spec.compose import compose
from pdctl.spec.fields import homes, section_at, walk
from pdctl.spec.load import parse
from pdctl.spec.locate import plain
from pdctl.spec.model import Cluster, Gpus
from pdctl.spec.schema import json_schema, reference, schema_text
from pdctl.spec.serving import Place, Pool
from pdctl.spec.source import source
from pdctl.spec.starter import starter

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "tests" / "cases" / "spec").glob("*.yml"))
jsonschema = pytest.importorskip("jsonschema")
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


@pytest.mark.parametrize(
    ("name", "text"), [("schema/cluster.schema.json", schema_text()), ("spec.md", reference())]
)
def test_the_committed_page_is_current(name: str, text: str, request: pytest.FixtureRequest) -> None:
    path = ROOT / "docs" / name
    if request.config.getoption("--accept", default=False):
        path.write_text(text)
    assert path.read_text() == text


def values(text: str) -> Any:
    root = compose(source(text, "c.yaml")).root
    return plain(root) if root else None


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_the_schema_takes_every_valid_spec() -> None:
    specs = [case.read_text() for case in CASES if not case.with_suffix(".err").exists()]
    examples = [path.read_text() for path in ROOT.glob("inventories/*/cluster.yaml")]
    for text in [*specs, *examples, starter()]:
        VALIDATOR.validate(values(text))


@pytest.mark.parametrize(
    "case",
    ["unquoted-versions", "base-60-is-text", "unknown-keys", "unknown-stack", "missing-keys"],
)
def test_the_schema_refuses_what_the_model_refuses(case: str) -> None:
    text = (ROOT / "tests" / "cases" / "spec" / f"{case}.yml").read_text()
    assert not VALIDATOR.is_valid(values(text))
    with pytest.raises(ErrorGroup):
        parse(text, "c.yaml")


def test_every_field_says_what_it_means() -> None:
    for path, info in walk():
        assert info.description and info.description.endswith("."), path


def test_the_reference_names_every_field() -> None:
    page = reference()
    for path, _ in walk():
        assert f"`{path.rpartition('.')[2]}`" in page


def test_paths_lead_to_the_model() -> None:
    assert section_at(()) is Cluster
    assert section_at(("hosts", 0, "gpus")) is Gpus
    assert section_at(("serving", "prefillers")) is Pool
    assert section_at(("serving", "decoders", "placement", 3)) is Place
    assert section_at(("cluster",)) is None
    assert section_at(("nothing", "here")) is None
    assert homes("jump") == ["ssh.jump", "hosts[].ssh.jump"]
