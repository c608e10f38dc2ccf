"""What a host's package manager says of the pinned versions -> what stands in an apply's way, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pdctl.plan.foreign import Foreign

HOUR_S, DAY_S = 3600, 86400


@dataclass(frozen=True)
class Repositories:
    """`lacks`: package -> the pinned version that is in no list here, and what there is; lists were fetched
    `age_s` seconds ago. `unfinished`: packages that dpkg has begun and not ended, with their states, of which
    `others` are not pdctl's; `cut` where dpkg was ended in the middle."""

    lacks: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    age_s: float = 0.0
    unfinished: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    cut: bool = False


def obstacles(repositories: Mapping[str, Repositories]) -> Iterator[Foreign]:
    """By host, as a plan tells them beside its drift."""
    for host, found in repositories.items():
        for name, words in lacking(host, found).items():
            yield Foreign("packages", name, host=host, words=f"{words} ({staleness(found)})")
        what, mend = interrupted(found)
        if what:
            yield Foreign("packages", "dpkg", host=host, words=f"{what}: {mend}")


def lacking(host: str, found: Repositories) -> dict[str, str]:
    """{package: `nvidia-x 580.99 is in no repository of h1; there are: 580.95 (http://...)`}"""
    return {
        name: f"{name} {version} is in no repository of {host}"
        + (f"; there are: {there}" if there else ", nor is any other version of it")
        for name, (version, there) in found.lacks.items()
    }


def staleness(found: Repositories) -> str:
    unit, size = ("days", DAY_S) if found.age_s >= 2 * DAY_S else ("hours", HOUR_S)
    old = f"{found.age_s // size:.0f} {unit}" if found.age_s >= 2 * HOUR_S else "minutes"
    return f"by lists that are {old} old; apply fetches them anew"


def interrupted(found: Repositories) -> tuple[str, str]:
    """What is wrong, and who mends it; empty where nothing is."""
    if not found.unfinished and not found.cut:
        return "", ""
    rows = [f"{name} ({state})" for name, state in found.unfinished.items()]
    where = f" at {', '.join(rows[:3])}{f' and {len(rows) - 3} more' if rows[3:] else ''}" if rows else ""
    what = f"dpkg was cut off{where}" if found.cut else f"dpkg has left packages unfinished{where}"
    if found.others:
        return what, "run `dpkg --configure -a` there: not all of that is pdctl's, and apply leaves it alone"
    return what, "apply finishes it"
