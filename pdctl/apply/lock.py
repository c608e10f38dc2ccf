"""One operator at a time per cluster: the lock of all its hosts, and the generation that is made under it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pdctl.apply.ages import age
from pdctl.apply.signals import deferred, raising
from pdctl.errors import ErrorGroup, LockError, PdctlError
from pdctl.hosts.holder import owner_document, this_process, why_live, why_stale
from pdctl.hosts.observation import Kept, LockOwner
from pdctl.hosts.parallel import on_each
from pdctl.hosts.sessions import Sessions
from pdctl.hosts.turn import turn

Say = Callable[[str], None]


@dataclass
class Held:
    """A lock while it is held. `states` says how the generation ended on each host that has part in it;
    a host that is not in it ended as `otherwise`; empty: it never came about. `oldest` and `forget` are what
    hosts may throw away."""

    token: str
    number: int = 0
    states: dict[str, str] = field(default_factory=dict)
    otherwise: str = ""
    oldest: int = 0
    forget: bool = False


@dataclass(frozen=True)
class Wanted:
    """What is asked of the hosts: the lock of each, as it was when the plan was made, and a generation."""

    cluster: str
    kept: Mapping[str, Kept]  # of every host that could be looked at
    number: int = 0
    begins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by host: header, rows, spec


@contextmanager
def locked(sessions: Sessions, wanted: Wanted, say: Say) -> Iterator[Held]:
    """Held until the end of the block, however it ends. The first host alone, so that of two operators one
    gets it; then the others.

    Raises LockError when another has it, or when the hosts are not any more as `wanted` says.
    """
    owner = this_process()
    held = Held(owner.token, wanted.number)
    tried: list[str] = []
    with raising():
        try:
            with deferred():
                _take_all(sessions, wanted, owner, tried, say)
            held.otherwise = "failed"
            yield held
        except KeyboardInterrupt:
            held.otherwise = "interrupted"
            raise
        finally:
            with deferred():
                _give_back(sessions, wanted, held, tried, say)


def break_locks(sessions: Sessions, cluster: str, owners: Mapping[str, LockOwner]) -> None:
    """Remove the locks of these owners, and of no one who came after. Raises ErrorGroup."""

    def unlock(host: str) -> None:
        if held := turn(sessions, cluster, host, "break", token=owners[host].token).held:
            raise held_by(host, held, cluster)

    errors = [error for _, error in on_each({host: host for host in owners}, unlock) if error]
    if errors:
        raise ErrorGroup("some locks could not be removed", errors)


def held_by(host: str, owner: LockOwner, cluster: str) -> LockError:
    return LockError(
        f"{owner.by} works on `{cluster}`: `{owner.command}`, since {age(owner.age_s)}",
        where=host,
        hint="wait for it; if it is certainly gone: pdctl unlock",
    )


def lock_lines(found: Mapping[str, Kept]) -> list[str]:
    """Who holds the lock, one line for each holder, for commands that only look."""
    hosts: dict[LockOwner, list[str]] = {}
    by_token: dict[str, LockOwner] = {}
    for host, kept in sorted(found.items()):
        if kept.lock:
            hosts.setdefault(by_token.setdefault(kept.lock.token, kept.lock), []).append(host)
    return [f"{', '.join(some)}: {_line(owner)}" for owner, some in hosts.items()]


def alive(owners: Iterable[LockOwner]) -> list[str]:
    """Of holders that are known to be at work: a lock that is removed under them is no stale one."""
    return list(dict.fromkeys(why for owner in owners if (why := why_live(owner))))


def is_live(found: Mapping[str, Kept]) -> bool:
    """Whether somebody holds the lock who is not known to be gone."""
    return any(kept.lock and not why_stale(kept.lock) for kept in found.values())


def _line(owner: LockOwner) -> str:
    holds = f"{owner.by} has held the lock for {age(owner.age_s)} (`{owner.command}`)"
    stale = why_stale(owner)
    return f"{holds}; it is stale: {stale}; the next apply takes it over" if stale else holds


def _take_all(sessions: Sessions, wanted: Wanted, owner: LockOwner, tried: list[str], say: Say) -> None:
    def take(host: str) -> None:
        _take(sessions, wanted, host, owner, say)

    first, *others = sorted(wanted.kept)
    tried.append(first)
    take(first)
    tried.extend(others)
    errors = [error for _, error in on_each({host: host for host in others}, take) if error]
    for error in sorted(errors, key=lambda error: error.where or ""):
        raise error


def _take(sessions: Sessions, wanted: Wanted, host: str, owner: LockOwner, say: Say) -> None:
    asked: dict[str, Any] = {"owner": owner_document(owner), "mark": wanted.kept[host].mark}
    if host in wanted.begins:
        asked["generation"] = wanted.begins[host]
    said = turn(sessions, wanted.cluster, host, "take", **asked)
    if said.held and (stale := why_stale(said.held)):
        say(f"{host}: the lock of {said.held.by} ({age(said.held.age_s)} old) is stale, taken over: {stale}")
        said = turn(sessions, wanted.cluster, host, "take", replaces=said.held.token, **asked)
    if said.held:
        raise held_by(host, said.held, wanted.cluster)
    if said.moved:
        raise LockError(
            "the hosts have changed since the plan was made; nothing was changed by this one",
            where=host,
            hint="run the same command again",
        )


def _give_back(sessions: Sessions, wanted: Wanted, held: Held, tried: list[str], say: Say) -> None:
    def give(host: str) -> str:
        asked = {"token": held.token, "oldest": held.oldest, "forget": held.forget}
        if host in wanted.begins:
            asked |= {"number": held.number, "state": held.states.get(host, held.otherwise)}
        lost = turn(sessions, wanted.cluster, host, "end", **asked).lost
        return f"its lock was {lost.by}'s at the end (`{lost.command}`)" if lost else ""

    # In reverse: who waits for the first host finds all others free.
    first, others = tried[:1], tried[:0:-1]
    for some in (others, first):
        for host, outcome in on_each({host: host for host in some}, give):
            if isinstance(outcome, PdctlError):
                say(f"{host}: the lock could not be given back: {outcome.message}; `pdctl unlock` removes it")
            elif outcome:
                say(f"{host}: {outcome}")
