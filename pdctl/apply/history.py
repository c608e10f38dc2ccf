"""Hosts -> the history of a cluster: what each apply changed, from what spec, what the hosts held then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pdctl.apply.generations import (
    BROKEN,
    complete,
    current,
    life_of,
    numbers,
    one_life,
    stands_for,
    state_of,
)
from pdctl.apply.lock import is_live
from pdctl.errors import ApplyError, ErrorGroup, HostError, PdctlError
from pdctl.hosts.observation import Generation, Kept
from pdctl.hosts.parallel import on_each
from pdctl.hosts.sessions import Sessions
from pdctl.hosts.turn import turn
from pdctl.state import Key, Resource, State, key_of
from pdctl.state.codec import resource_from_json

T = TypeVar("T")


@dataclass(frozen=True)
class Past:
    """What hosts keep of earlier applies, and the hosts that could not be asked."""

    cluster: str
    kept: Mapping[str, Kept]
    failures: Mapping[str, PdctlError]


def past(sessions: Sessions, cluster: str) -> Past:
    """Ask every host. Raises ErrorGroup when none answers."""

    def ask(host: str) -> Kept:
        return turn(sessions, cluster, host, "show").kept or Kept()

    found, failures = _each(sessions.hosts, ask)
    if not found:
        raise ErrorGroup("no host could be asked", list(failures.values()))
    return Past(cluster, one_life(found), failures)


def spec_of(sessions: Sessions, seen: Past, number: int) -> str:
    """The text of cluster.yaml that generation `number` was made from."""
    return _text_of(sessions, seen, number, "spec")


def lock_of(sessions: Sessions, seen: Past, number: int) -> str:
    """That of cluster.lock; empty where there was none."""
    return _text_of(sessions, seen, number, "lock")


def _text_of(sessions: Sessions, seen: Past, number: int, name: str) -> str:
    having = _having(seen, number)
    if not having:
        raise ApplyError(f"there is no generation {number} of `{seen.cluster}`", hint=_there_are(seen))
    whole = [host for host, row in having.items() if row.state != BROKEN]
    if not whole:
        raise _cannot_be_read(seen, number)
    errors: list[PdctlError] = []
    for host in whole:
        try:
            said = turn(
                sessions, seen.cluster, host, "recall", number=number, only=name, life=life_of(seen.kept)
            )
        except PdctlError as error:  # any host that has it will do
            errors.append(error)
            continue
        text: str | None = getattr(said, name)
        if text is not None:
            return text
    raise (
        errors[0] if errors else HostError(f"the {name} of generation {number} is not there", where=whole[0])
    )


def target(seen: Past, number: int | None) -> int:
    """The generation to go back to: `number`, or else the last good one. Raises ApplyError."""
    done = complete(seen.kept)
    if number is None:
        return _last_good(seen, done)
    if number not in numbers(seen.kept):
        raise ApplyError(f"there is no generation {number} of `{seen.cluster}`", hint=_there_are(seen))
    if number not in done:
        state = state_of(seen.kept, number)
        if state == BROKEN:
            raise _cannot_be_read(seen, number)
        raise ApplyError(
            f"generation {number} was never reached in whole ({shown_state(seen, number, state)})",
            hint=_there_are(seen),
        )
    return number


def _last_good(seen: Past, done: Sequence[int]) -> int:
    """After one that was not reached in whole, that is the one which ran before it. Else the one before the
    present, as often as one asks: a way back was made from what it brought back, and never leads forward."""
    now = current(seen.kept)
    if now and max(numbers(seen.kept)) > now:
        return now
    here = stands_for(seen.kept, now)
    before = [each for each in done if each < here]
    if not before:
        told = f", which brought back {here}" if here != now else ""
        raise ApplyError(
            f"`{seen.cluster}` has no generation before the present one ({now or 'none'}{told})",
            hint=_there_are(seen),
        )
    return before[-1]


def told_of(seen: Past, number: int) -> str:
    """`generation 3 (2030-01-02 03:04, ann@desk): create 3`."""
    row = next(iter(_having(seen, number).values()))
    return f"generation {number} ({row.at[:16].replace('T', ' ')}, {row.by}): {row.what}"


def held_by_all(sessions: Sessions, seen: Past, number: int) -> tuple[State, dict[str, PdctlError]]:
    """What every host held at a generation, and the hosts that could not be asked.

    Raises ErrorGroup when one that can be asked cannot say it: the others would go back without it.
    """

    def recall(host: str) -> dict[Key, Resource]:
        manifest = turn(
            sessions, seen.cluster, host, "recall", number=number, only="manifest", life=life_of(seen.kept)
        ).manifest
        try:
            rows = [resource_from_json(row) for row in manifest.rows] if manifest else []
        except (KeyError, TypeError, ValueError) as error:
            raise HostError(
                f"what it keeps of generation {number} cannot be read: {error}", where=host
            ) from None
        return {key_of(host, resource): resource for resource in rows}

    found, failures = _each(seen.kept, recall)
    damaged = [error for error in failures.values() if isinstance(error, HostError)]
    if damaged:
        raise cannot_be_brought_back(number, damaged)
    return {key: value for some in found.values() for key, value in some.items()}, {
        **seen.failures,
        **failures,
    }


def cannot_be_brought_back(number: int, errors: Sequence[PdctlError]) -> ErrorGroup:
    return ErrorGroup(
        f"generation {number} cannot be brought back; nothing was changed",
        errors,
        hint=f"install it anew: pdctl history --spec {number} > old.yaml && pdctl apply old.yaml",
    )


def history_document(seen: Past) -> dict[str, Any]:
    """Newest first; see docs/json.md."""
    return {
        "format": "pdctl-history/1",
        "cluster": seen.cluster,
        "current": current(seen.kept) or None,
        "generations": [_row(seen, number) for number in reversed(numbers(seen.kept))],
        "broken": {host: list(kept.broken) for host, kept in seen.kept.items() if kept.broken},
        "unreachable": {host: error.message for host, error in seen.failures.items()},
    }


def shown_state(seen: Past, number: int, state: str) -> str:
    """`started` is running while somebody holds the lock, and cut off when nobody does."""
    if state != "started":
        return state
    return "running" if number == max(numbers(seen.kept)) and is_live(seen.kept) else "cut off"


def _row(seen: Past, number: int) -> dict[str, Any]:
    rows = _having(seen, number)
    one = min(rows.values(), key=lambda row: row.state == BROKEN)
    return {
        "number": number,
        "at": one.at,
        "age_s": round(min(row.age_s for row in rows.values())),
        "by": one.by,
        "pdctl": one.pdctl,
        "what": one.what,
        "command": one.command,
        "state": shown_state(seen, number, state_of(seen.kept, number)),
        "current": number == current(seen.kept),
        "restores": one.restores,
        "hosts": {host: row.state for host, row in rows.items()},
    }


def _having(seen: Past, number: int) -> dict[str, Generation]:
    return {h: row for h, kept in seen.kept.items() for row in kept.generations if row.number == number}


def _cannot_be_read(seen: Past, number: int) -> ApplyError:
    found = {host: row.what for host, row in _having(seen, number).items() if row.state == BROKEN}
    host, why = next(iter(found.items()))
    return ApplyError(f"generation {number} cannot be read: {why}", where=host, hint=_there_are(seen))


def _there_are(seen: Past) -> str:
    found = complete(seen.kept)
    return f"there are: {', '.join(map(str, found))}; see `pdctl history`" if found else "see `pdctl history`"


def _each(hosts: Iterable[str], work: Callable[[str], T]) -> tuple[dict[str, T], dict[str, PdctlError]]:
    """Both in the order of the spec, whoever answered first."""
    asked = {host: host for host in hosts}
    outcomes = dict(on_each(asked, work))
    found: dict[str, T] = {}
    failures: dict[str, PdctlError] = {}
    for host in asked:
        outcome = outcomes[host]
        if isinstance(outcome, PdctlError):
            failures[host] = outcome
        else:
            found[host] = outcome
    return found, failures
