"""A lock file -> its entries: the wheels of one environment, each with the hashes it may have."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pdctl.errors import BundleError
from pdctl.knowledge.locks import lock_path

_ENTRY = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9-]*)==(?P<version>\S+)(?P<hashes>( --hash=sha256:[0-9a-f]{64})+)"
)


@dataclass(frozen=True, order=True)
class Entry:
    """A wheel; `hashes` are `sha256:...`, several when more than one build of the version is accepted."""

    name: str
    version: str
    hashes: tuple[str, ...]

    @property
    def requirement(self) -> str:
        """The line that pip and uv read."""
        return " ".join([f"{self.name}=={self.version}", *(f"--hash={each}" for each in self.hashes)])


@dataclass(frozen=True)
class Lock:
    """All wheels of one environment; `digest` changes with any of them, and stands for them."""

    entries: tuple[Entry, ...] = field(compare=False)
    digest: str


class Runtime(NamedTuple):
    """A Python environment of hosts and the Python it is for: the name of a lock.

    `entries` are its wheels where they are not those of the shipped lock.
    """

    name: str
    python: str
    entries: tuple[Entry, ...] = ()


@functools.cache
def load_lock(name: str, python: str) -> Lock:
    """The lock that pdctl ships for the environment `name` on `python`, e.g. `engine-cpu` on `3.11`."""
    path = lock_path(name, python)
    if not path.is_file():
        raise BundleError(
            f"there is no lock of `{name}` for Python {python}",
            hint=f"locks there are: {', '.join(known_locks())}",
        )
    return parse_lock(path.read_text("utf-8"), path)


def locked_pythons(name: str) -> tuple[str, ...]:
    """Every Python that `name` is locked for, as `3.11`."""
    found = (re.fullmatch(rf"{re.escape(name)}-py(\d)(\d+)", stem) for stem in known_locks())
    return tuple(f"{match[1]}.{match[2]}" for match in found if match)


def known_locks() -> tuple[str, ...]:
    """The shipped locks, as `engine-cpu-py311`."""
    return tuple(sorted(path.stem for path in lock_path("any", "0").parent.glob("*.lock")))


def parse_lock(text: str, path: Path) -> Lock:
    """`path` is only named in errors. Lines that start with # say how the lock was made."""
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        entry = entry_of(line)
        if entry is None:
            raise BundleError(f"not `name==version --hash=sha256:...`: {line!r}", where=f"{path}:{number}")
        entries.append(entry)
    _refuse_doubles(entries, path)
    return lock_of(entries)


def lock_of(entries: Iterable[Entry]) -> Lock:
    found = tuple(entries)
    lines = "\n".join(sorted(entry.requirement for entry in found))
    return Lock(found, hashlib.sha256(lines.encode()).hexdigest())


def entry_of(line: str) -> Entry | None:
    """`name==version --hash=sha256:...`; None when the line is something else."""
    match = _ENTRY.fullmatch(line)
    if match is None:
        return None
    hashes = tuple(word.removeprefix("--hash=") for word in match["hashes"].split())
    return Entry(match["name"], match["version"], hashes)


def _refuse_doubles(entries: list[Entry], path: Path) -> None:
    names = [entry.name for entry in entries]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise BundleError(f"`{double[0]}` is locked twice", where=str(path))
