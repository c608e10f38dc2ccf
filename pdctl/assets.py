"""Paths of what ships with pdctl and is not imported: playbooks, templates, inventories, sources to build."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Kind = Literal["playbooks", "templates", "inventories"]


def assets(kind: Kind) -> Path:
    """A checkout has it at the top, an installed wheel inside the package (pyproject's force-include)."""
    packaged = Path(__file__).parent / kind
    return packaged if packaged.is_dir() else Path(__file__).parents[1] / kind


def package(name: str) -> Path:
    """Sources of a sub-package by its dotted name, e.g. `contrib.cpu_connector`, to make a wheel of them."""
    return Path(__file__).parent.joinpath(*name.split("."))
