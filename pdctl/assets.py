"""Where the files shipped beside the code lie: playbooks, templates, example inventories."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Kind = Literal["playbooks", "templates", "inventories"]


def assets(kind: Kind) -> Path:
    """The folder of `kind`: inside the package in a wheel, beside the package in a checkout."""
    packaged = Path(__file__).parent / kind
    return packaged if packaged.is_dir() else Path(__file__).parents[1] / kind


def package(name: str) -> Path:
    """The source folder of one of pdctl's self-contained sub-packages, e.g. `proxy`."""
    return Path(__file__).parent.joinpath(*name.split("."))
