"""Work -> how long it took: the parts of a command that take noticeable time, recorded as they end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

OUTSIDE = "everything else"  # modules that are loaded, what is printed


@dataclass(frozen=True)
class Lap:
    """One piece of work that has ended. `path` names it, the work around it first; `host` may be empty."""

    path: tuple[str, ...]
    host: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True)
class Part:
    """All laps of one name: from the first beginning to the last end, and the hosts' own times."""

    path: tuple[str, ...]
    seconds: float
    hosts: tuple[tuple[float, str], ...] = ()  # fastest first

    @property
    def median(self) -> float:
        return self.hosts[len(self.hosts) // 2][0]


class Laps:
    """The laps of one program. Work of single hosts may run in any thread, all other only in one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, before: float = 0.0) -> None:
        self._clock = clock
        self._began = clock() - before
        self._around: list[str] = []
        self._ended: list[Lap] = []

    @contextmanager
    def __call__(self, name: str, host: str = "") -> Iterator[None]:
        """Time what is done inside, also when it fails."""
        path, began = (*self._around, name), self._clock()
        if not host:
            self._around.append(name)
        try:
            yield
        finally:
            if not host:
                self._around.pop()
            self._ended.append(Lap(path, host, began, self._clock()))

    def add(self, name: str, host: str, seconds: float) -> None:
        """Work of which only its end and its length are known, such as a task that Ansible tells of."""
        now = self._clock()
        self._ended.append(Lap((*self._around, name), host, now - seconds, now))

    def parts(self) -> list[Part]:
        """In the order in which they began; those inside another right after it."""
        found: dict[tuple[str, ...], list[Lap]] = {}
        for each in sorted(self._ended, key=lambda each: (each.began, len(each.path))):
            found.setdefault(each.path, []).append(each)
        return [_part(path, some) for path, some in _nested(found)]

    def total(self) -> float:
        """Since the program started."""
        return self._clock() - self._began


def timing_document(of: Laps) -> dict[str, Any]:
    """The same as JSON; see docs/json.md."""
    parts, total = of.parts(), of.total()
    outside = Part((OUTSIDE,), max(0.0, total - sum(p.seconds for p in parts if len(p.path) == 1)))
    return {"total_s": round(total, 4), "parts": [_row(part) for part in (*parts, outside)]}


def _row(part: Part) -> dict[str, Any]:
    row: dict[str, Any] = {"part": list(part.path), "seconds": round(part.seconds, 4)}
    if part.hosts:
        most, slowest = part.hosts[-1]
        row |= {"hosts": len(part.hosts), "least_s": round(part.hosts[0][0], 4)}
        row |= {"median_s": round(part.median, 4), "most_s": round(most, 4), "slowest": slowest}
    return row


def _part(path: tuple[str, ...], some: Sequence[Lap]) -> Part:
    spent: dict[str, float] = {}
    for each in some:
        if each.host:
            spent[each.host] = spent.get(each.host, 0.0) + each.seconds
    hosts = sorted((seconds, host) for host, seconds in spent.items())
    if not hosts:  # one after the other, with other work between
        return Part(path, sum(each.seconds for each in some))
    return Part(path, max(each.ended for each in some) - min(each.began for each in some), tuple(hosts))


def _nested(
    found: dict[tuple[str, ...], list[Lap]], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], list[Lap]]]:
    for path, some in found.items():
        if path[:-1] == above:
            yield path, some
            yield from _nested(found, path)


# What it took to start Python and to come here. Its wall time is not known: a process may have been another
# program before.
laps = Laps(before=time.process_time())
