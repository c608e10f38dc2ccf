"""Plan -> what has to follow on hosts because a file changes there: an initramfs made anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pdctl.knowledge.effects import effect_of
from pdctl.plan.model import Action, Change, Drift, Plan
from pdctl.state import File


@dataclass(frozen=True)
class Effect:
    """`owed`: the file is right already, but an interrupted apply did not come to what follows it."""

    host: str
    path: str
    command: str
    owed: bool = False


def effects(plan: Plan) -> Iterator[Effect]:
    changed = {change.key: change for change in plan.changes}
    for key, change in changed.items():
        file = change.desired or change.observed
        if isinstance(file, File) and effect_of(file.path) and _asks(change):
            yield Effect(key.host, file.path, " ".join(effect_of(file.path)))
    for row in plan.drift:
        file = row.observed
        if row.key not in changed and isinstance(file, File) and effect_of(file.path) and _is_owed(row):
            yield Effect(row.key.host, file.path, " ".join(effect_of(file.path)), owed=True)


def _is_owed(row: Drift) -> bool:
    """It is told although it is as it was left, or was never recorded: an apply was at it and did not end."""
    before, now = row.recorded, row.observed
    return not isinstance(before, File) or not isinstance(now, File) or before.digest == now.digest


def _asks(change: Change) -> bool:
    """Its owner and mode alone ask for nothing."""
    if change.action is Action.FORGET:
        return False
    want, have = change.desired, change.observed
    return not (isinstance(want, File) and isinstance(have, File)) or want.digest != have.digest
