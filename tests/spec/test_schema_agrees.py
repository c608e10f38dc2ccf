"""What the model refuses by its form an editor marks too, and nothing that is sound."""

from __future__ import annotations

import os
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from pdctl.knowledge.stacks import STACKS
from pdctl.spec.model import Cluster
from pdctl.spec.schema import json_schema
from tests.spec.mutations import EXAMPLES, REAL, mutations

VALIDATOR = jsonschema.Draft202012Validator(json_schema())
EVERY = 1 if os.environ.get("PDCTL_SOAK") else 7


TEXTS = [*EXAMPLES, *REAL]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_the_schema_and_the_model_refuse_the_same(text: str) -> None:
    seen = 0
    for path, values in mutations(text, EVERY if text in EXAMPLES else 5 * EVERY):
        seen += 1
        refused = refused_by_model(values)
        marked = not VALIDATOR.is_valid(values)
        if marked != bool(refused):
            assert is_stack_name(path, values), (path, at(values, path), refused)
    assert seen > 10


def refused_by_model(values: Any) -> list[str]:
    try:
        Cluster.model_validate(values)
    except ValidationError as error:
        return [f"{item['loc']}: {item['type']}" for item in error.errors(include_url=False)]
    return []


def is_stack_name(path: tuple[str | int, ...], values: Any) -> bool:
    """Which stacks there are is a rule's to say (PIN001), and the schema's."""
    value = at(values, path)
    return path in (("stack",), ("stack", "base")) and value not in STACKS


def at(values: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        values = values[step]
    return values
