"""Spec file -> topology, with every error pointing at the user's line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from pdctl.cli.reading import inspected, spec_bytes
from pdctl.errors import SpecError
from pdctl.hosts.timing import laps
from pdctl.parts.cluster_lock import lock_file
from pdctl.spec.load import Reading
from pdctl.topology.judge import Judgement, files_of, judge, judge_more
from pdctl.topology.model import Topology


def load_topology(path: Path) -> Topology:
    """The resolved spec; warnings go to stderr. A stale lock is only a warning to who changes nothing.

    Raises SpecError or ErrorGroup whose `where` is file:line:column and key path.
    """
    judgement = judge_spec(path)
    tell_warnings(judgement)
    if judgement.errors and all(error.rule.startswith("LOCK") for error in judgement.errors):
        warn(f"{error}; the lock is not used" for error in judgement.errors)
        judgement = judge_without_lock(path)
    return judgement.sound()


def load_reading(path: Path) -> tuple[Topology, Reading]:
    """The same, with the text, so that a plan can name the lines that ask for it."""
    with laps("load"):
        seen = inspected(path)
    with laps("resolve"):
        judgement = _with_lock(judge(seen, files_of(seen)), path)
    tell_warnings(judgement)
    topology = judgement.sound()
    assert seen.cluster is not None and seen.text is not None
    return topology, Reading(seen.cluster, (), seen.text)


def judge_spec(path: Path) -> Judgement:
    """All that can be said of the spec, raising nothing."""
    with laps("load"):
        seen = inspected(path)
    with laps("resolve"):
        return _with_lock(judge(seen, files_of(seen)), path)


def judge_without_lock(path: Path) -> Judgement:
    """The same, of the spec alone: for what makes the lock."""
    seen = inspected(path)
    return judge(seen, files_of(seen))


def judge_with_hosts(path: Path) -> Judgement:
    """What can be said of the spec, and of its hosts when it is sound: one look, which changes nothing."""
    judgement = judge_spec(path)
    if judgement.topology is None:
        return judgement
    from pdctl.hosts.suitability import unsuited
    from pdctl.verify.glance import glance

    topology = judgement.topology
    return judge_more(inspected(path), judgement, unsuited(topology, glance(topology, folder_of(path))))


def _with_lock(judgement: Judgement, path: Path) -> Judgement:
    if judgement.topology is None:
        return judgement
    if not os.path.lexists(lock_file(path)) and not judgement.topology.spec.offline:
        return judgement
    from pdctl.desired.locking import judged_with_lock  # loads what renders files

    return judged_with_lock(judgement, path)


def tell_warnings(judgement: Judgement) -> None:
    tell(judgement.warnings)


def tell(warnings: Iterable[SpecError]) -> None:
    """Each with its next step."""
    for warning in warnings:
        sys.stderr.write(f"warning: {warning}\n" + (f"  hint: {warning.hint}\n" if warning.hint else ""))


def warn(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stderr.write(f"warning: {line}\n")


def text_of(path: Path) -> str:
    """The spec as it is written, for the history."""
    return spec_bytes(path).decode("utf-8-sig")


def folder_of(path: Path) -> Path:
    """Where relative paths in the spec start."""
    return path.absolute().parent
