"""Spec file -> topology, with every error pointing at the user's line."""

from __future__ import annotations

from pathlib import Path

from pdctl.spec.load import load_document
from pdctl.topology import Topology, resolve


def load_topology(path: Path) -> Topology:
    """Raises SpecError or ErrorGroup whose `where` is file:line:column and key path."""
    document = load_document(path)
    with document.located():
        return resolve(document.cluster)


def folder_of(path: Path) -> Path:
    """Where relative paths in the spec start."""
    return path.absolute().parent
