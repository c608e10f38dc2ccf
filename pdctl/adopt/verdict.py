"""Values of a draft -> its topology, or what is wrong with them by key path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from pdctl.errors import ErrorGroup, PdctlError, SpecError
from pdctl.spec.finding import Path
from pdctl.spec.load import parse
from pdctl.spec.locate import read
from pdctl.spec.model import Cluster
from pdctl.topology import Topology, resolve

NAME = "draft"


@dataclass(frozen=True)
class Problem:
    path: Path
    message: str
    rule: str = ""


@dataclass(frozen=True)
class Verdict:
    """Either a topology or problems."""

    topology: Topology | None
    problems: tuple[Problem, ...] = ()


def judge(values: Mapping[str, Any]) -> Verdict:
    """As `pdctl validate` judges the file; JSON is YAML."""
    try:
        return Verdict(resolve(parse(json.dumps(values, indent=1), NAME)))
    except ErrorGroup as group:
        return Verdict(None, tuple(_problem(error) for error in group.errors))


def topology_of(values: Mapping[str, Any]) -> Topology | None:
    """The same without the rules between fields, many times faster; None when it has none."""
    try:
        return resolve(Cluster.model_validate(values))
    except (ValidationError, ErrorGroup):
        return None


def lookup(values: Any, path: Path) -> Any:
    """The value at `path`; None when there is none."""
    for key in path:
        if isinstance(values, dict):
            values = values.get(key)
        elif isinstance(values, list) and isinstance(key, int) and key < len(values):
            values = values[key]
        else:
            return None
    return values


def prune(values: dict[str, Any], path: Path) -> None:
    """Take away the mappings on the path that have become empty."""
    for end in range(len(path), 0, -1):
        holder = lookup(values, path[: end - 1])
        if isinstance(holder, dict) and holder.get(path[end - 1]) == {}:
            del holder[path[end - 1]]


def _problem(error: PdctlError) -> Problem:
    """`where` is `draft:12:5: serving.decoders` from the file, or a key path alone from the topology."""
    rule = error.rule if isinstance(error, SpecError) else ""
    where = (error.where or "").rpartition(" ")[2]
    return Problem(() if where.startswith(f"{NAME}:") else read(where), error.message, rule)
