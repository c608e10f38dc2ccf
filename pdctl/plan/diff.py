"""State x State -> changes: the comparison at the heart of diff, apply, verify and destroy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from pdctl.plan.downgrades import DOWNGRADE, is_downgrade
from pdctl.plan.drift import own_files_aside
from pdctl.plan.model import Action, Change
from pdctl.plan.text import file_diff
from pdctl.state import Key, Resource, State, Unit, difference

DROP_IN = "drop-in "  # how a unit's deviation begins that is another's file: pdctl_observe_units


def action(want: Resource | None, have: Resource | None) -> Action | None:
    """What brings `have` to `want`; None when nothing has to be done."""
    if want is None:
        return None if have is None else Action.DELETE
    if have is None:
        return Action.CREATE
    return Action.UPDATE if difference(want, have) else None


def diff(
    desired: State,
    observed: State,
    recorded: State,
    *,
    contents: Mapping[Key, bytes],
    found_before: Set[Key] = frozenset(),
    pending: Set[Key] = frozenset(),
) -> Iterator[Change]:
    """Every change, in key order. `found_before` existed before pdctl came: they are never deleted.

    An interrupted apply was at those in `pending`: how they are now is no drift.
    """
    for key in sorted(desired.keys() | observed.keys() | recorded.keys()):
        want, have = desired.get(key), observed.get(key)
        # Recorded, not wanted and not there: only the record has to learn it.
        what = Action.FORGET if want is None and have is None else action(want, have)
        if what is None:
            continue
        if what is Action.DELETE and key in found_before:
            what = Action.FORGET
        yield Change(
            key=key,
            action=what,
            desired=want,
            observed=have,
            why=_why(want, have),
            drift=key not in pending
            and _is_drift(
                want, own_files_aside(key, have, recorded, observed, pending, desired), recorded.get(key)
            ),
            text=file_diff(want, have, contents.get(key)),
        )


def _why(want: Resource | None, have: Resource | None) -> tuple[str, ...]:
    if want is None:
        return ("no longer in the spec", *_drop_ins(have))
    if have is None:
        return ("missing",)
    if isinstance(want, Unit) and isinstance(have, Unit):
        return (*taken_up(want, have), *_drop_ins(have))
    return difference(want, have) + ((DOWNGRADE,) if is_downgrade(want, have) else ())


def _drop_ins(have: Resource | None) -> Iterator[str]:
    """Somebody wrote them: that they go is never left unsaid."""
    for word in have.deviations if isinstance(have, Unit) else ():
        if word.startswith(DROP_IN):
            yield f"remove {word}"


def taken_up(want: Unit, have: Unit) -> Iterator[str]:
    """The difference in words of what is done about it, where a running proxy does it without a restart."""
    told = have = replace(have, deviations=tuple(d for d in have.deviations if not d.startswith(DROP_IN)))
    if have.loaded and have.revision == want.revision:
        told = replace(have, loaded=want.loaded, drained=want.drained, sides=want.sides)
    yield from difference(want, told)
    if told.loaded != have.loaded:
        yield "takes up the new list of instances without a restart"
    if told.drained != have.drained:
        yield f"undrain {', '.join(have.drained)}"
    if told.sides != have.sides:
        yield "pair all instances again"


def _is_drift(want: Resource | None, have: Resource | None, before: Resource | None) -> bool:
    """It was as wanted when pdctl left it, and is not now."""
    if want is None or before is None or difference(want, before):
        return False
    return have is None or bool(difference(want, have))
