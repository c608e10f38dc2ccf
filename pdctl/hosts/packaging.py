"""One host of the spec -> what keeps its package manager from installing what the stack pins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pdctl.plan.repositories import interrupted, lacking, staleness
from pdctl.spec.finding import Finding

if TYPE_CHECKING:
    from pdctl.hosts.suitability import View


def packaging(view: View) -> Iterator[Finding]:
    """Nothing where no package is wanted, or all are there already."""
    found = view.facts.apt
    if lacks := [*lacking("it", found).values()]:
        several = f"{len(lacks)} pinned versions" if len(lacks) > 1 else "a pinned version"
        message = f"cannot get {several}: {'; '.join(lacks)} ({staleness(found)})"
        hint = "pin one that is there, or give the host a repository that has it"
        yield view.finding("FACT034", message, hint)
    what, mend = interrupted(found)
    if found.others:
        yield view.finding("FACT035", f"installs nothing until somebody repairs it: {what}", mend)


def packages_found(view: View) -> str:
    """Of the row in doctor's table."""
    found = view.facts.apt
    what, mend = interrupted(found)
    parts = [f"{len(found.lacks)} pinned versions in no repository"] if found.lacks else []
    parts += [f"{what}: {mend}"] if what else []
    return "; ".join(parts) or "all pinned versions are there, or in a repository"
