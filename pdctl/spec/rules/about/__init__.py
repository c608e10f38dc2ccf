"""What each rule says of itself: the words behind docs/rules.md, `pdctl explain` and SARIF."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["error", "warning"]


class About(NamedTuple):
    """One rule. `example` is a part of a spec that breaks it: its sections replace those of a sound one."""

    id: str
    title: str  # the reason in one line
    why: str
    mend: str
    example: str = ""
    severity: Severity = "error"
    # Whether `suppress` may set it aside: where pdctl only guesses, not where the cluster could never work.
    suppressible: bool = False


def warning(id: str, title: str, why: str, mend: str, example: str) -> About:
    """A rule that only warns; every such rule can be suppressed."""
    return About(id, title, why, mend, example, "warning", True)


def doubt(id: str, title: str, why: str, mend: str, example: str) -> About:
    """An error that a user who knows better may suppress."""
    return About(id, title, why, mend, example, "error", True)
