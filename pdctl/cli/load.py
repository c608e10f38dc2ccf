"""Spec file -> topology, with every error pointing at the user's line."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from pdctl.errors import ErrorGroup, SpecError
from pdctl.hosts.timing import laps
from pdctl.spec.load import Reading, check
from pdctl.topology import Topology, resolve


def load_topology(path: Path) -> Topology:
    """The resolved spec; warnings go to stderr.

    Raises SpecError or ErrorGroup whose `where` is file:line:column and key path.
    """
    with laps("load"):
        reading = check(path)
    for warning in reading.warnings:
        sys.stderr.write(f"warning: {warning}\n" + (f"  hint: {warning.hint}\n" if warning.hint else ""))
    try:
        with laps("resolve"):
            return resolve(reading.cluster)
    except ErrorGroup as group:
        raise _located(path, reading, group) from None


def warn(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stderr.write(f"warning: {line}\n")


def folder_of(path: Path) -> Path:
    """Where relative paths in the spec start."""
    return path.absolute().parent


def _located(path: Path, reading: Reading, group: ErrorGroup) -> ErrorGroup:
    errors = [
        SpecError(error.message, where=reading.where(error.where or ""), hint=error.hint)
        for error in group.errors
    ]
    return ErrorGroup(f"{group.message} in {path}", errors)
