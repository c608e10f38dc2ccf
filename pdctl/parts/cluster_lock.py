"""The file cluster.lock: every exact version of one cluster, and what it was resolved from."""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pdctl.errors import Place, SpecError
from pdctl.knowledge.locks import LOCK_FORMAT
from pdctl.parts.lock import Entry, Lock, entry_of, lock_of

FORMAT = LOCK_FORMAT
HEAD = "# Every exact version of cluster `{cluster}`. Written by `pdctl lock`: commit it beside the spec.\n"
SOURCE, APT = "from", "apt"
_TITLE = re.compile(r"\[([a-z][a-z0-9-]*)(?: ([a-z0-9.-]+))?(?:: ([0-9]{1,6}) lines?)?\]")
_PAIR = re.compile(r"([a-z0-9][a-z0-9 .+_-]*) = (\S.*)")
MAX_BYTES = 4 << 20


@dataclass(frozen=True)
class ClusterLock:
    """`source` is what it was resolved from, by name; `packages` Debian versions by system and package;
    `environments` the wheels by name and Python."""

    cluster: str
    source: Mapping[str, str]
    packages: Mapping[str, Mapping[str, str]]
    environments: Mapping[tuple[str, str], Lock]
    lines: Mapping[str, int]  # of each source, for errors


def lock_file(spec: Path) -> Path:
    """`cluster.lock` beside `cluster.yaml`. Raises SpecError where that is the spec itself."""
    file = spec.with_suffix(".lock")
    if file == spec:
        raise SpecError(
            f"{spec} is named as its own lock: `pdctl lock` would write over it",
            hint=f"pdctl lock {spec.with_suffix('.yaml')}, if that is the spec; else rename it",
        )
    return file


def source_digest(source: Mapping[str, str]) -> str:
    text = "".join(f"{name} = {source[name]}\n" for name in sorted(source))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def lock_text(lock: ClusterLock) -> str:
    """Sorted, one line a version, no addresses: two locks of the same versions are the same text."""
    parts = [HEAD.format(cluster=lock.cluster), f"{FORMAT} {source_digest(lock.source)}\n"]
    parts += ["\n", f"[{SOURCE}]\n", *_pairs(lock.source)]
    for system in sorted(lock.packages):
        parts += ["\n", _title(APT, system, len(lock.packages[system])), *_pairs(lock.packages[system])]
    for name, python in sorted(lock.environments):
        entries = sorted(lock.environments[name, python].entries)
        parts += ["\n", _title(name, python, len(entries)), *(f"{entry.requirement}\n" for entry in entries)]
    return "".join(parts)


def kept_text(lock: ClusterLock | None) -> str:
    """As the history keeps it; empty without a lock."""
    return lock_text(lock) if lock else ""


def read_lock(path: Path) -> ClusterLock:
    """Raises SpecError (LOCK001) naming the line that is none of a lock."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise refusal(path, 0, "is no file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise refusal(path, 0, f"cannot be read: {reason}") from None
    if len(raw) > MAX_BYTES:
        raise refusal(path, 0, f"is larger than {MAX_BYTES >> 20} MiB")
    return parse_cluster_lock(text, path)


class _Section(NamedTuple):
    name: str
    of: str  # a system or a Python
    line: int
    rows: list[tuple[int, str]]
    written: int | None  # lines, as its title has it


def parse_cluster_lock(text: str, path: Path) -> ClusterLock:
    """`path` is only named in errors."""
    rows = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line and not line.startswith("#")]
    if not rows or not rows[0][1].startswith(f"{FORMAT} "):
        raise refusal(path, rows[0][0] if rows else 0, f"does not begin with `{FORMAT} sha256:...`")
    digest = rows[0][1].removeprefix(f"{FORMAT} ")
    sections = list(_sections(rows[1:], path))
    source, lines = _source(sections, path)
    if source_digest(source) != digest:
        raise refusal(path, rows[0][0], f"the section [{SOURCE}] is not the one it was written with")
    lock = ClusterLock(
        cluster=_cluster(text),
        source=source,
        packages={s.of: dict(_read_pairs(s, path)) for s in sections if s.name == APT},
        environments={
            (s.name, s.of): lock_of(_entries(s, path)) for s in sections if s.name not in (SOURCE, APT)
        },
        lines=lines,
    )
    _counted(sections, path)  # last: what a line has that is none says more
    return lock


def refusal(path: Path, line: int, why: str) -> SpecError:
    return SpecError(
        why, where=Place(str(path), line, 1 if line else 0), hint="make it anew: pdctl lock", rule="LOCK001"
    )


def _cluster(text: str) -> str:
    found = re.match(r"# Every exact version of cluster `([^`]*)`", text)
    return found[1] if found else ""


def _sections(rows: list[tuple[int, str]], path: Path) -> Iterator[_Section]:
    section: _Section | None = None
    seen: set[tuple[str, str]] = set()
    for number, line in rows:
        if title := _TITLE.fullmatch(line):
            if section:
                yield section
            section = _Section(title[1], title[2] or "", number, [], int(title[3]) if title[3] else None)
            if (section.name, section.of) in seen:
                raise refusal(path, number, f"the section {line} is there twice")
            seen.add((section.name, section.of))
        elif section is None:
            raise refusal(path, number, f"stands in no section: {line!r}")
        else:
            section.rows.append((number, line))
    if section:
        yield section


def _counted(sections: list[_Section], path: Path) -> None:
    """A line that an editor or a merge has lost would be a wheel that hosts lack."""
    for section in sections:
        if section.written not in (None, len(section.rows)):
            counted = f"{section.written} line{'' if section.written == 1 else 's'}"
            raise refusal(
                path,
                section.line,
                f"the section [{section.name} {section.of}] was written with {counted} and has"
                f" {len(section.rows)}",
            )


def _source(sections: list[_Section], path: Path) -> tuple[dict[str, str], dict[str, int]]:
    for section in sections:
        if section.name == SOURCE:
            source = dict(_read_pairs(section, path))
            return source, dict(zip(source, (number for number, _ in section.rows), strict=True))
    raise refusal(path, 0, f"has no section [{SOURCE}]")


def _read_pairs(section: _Section, path: Path) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for number, line in section.rows:
        match = _PAIR.fullmatch(line)
        if match is None or match[1] in seen:
            raise refusal(path, number, f"is not `name = version`, or a second one: {line!r}")
        seen.add(match[1])
        yield match[1], match[2]


def _entries(section: _Section, path: Path) -> Iterator[Entry]:
    seen: set[str] = set()
    for number, line in section.rows:
        entry = entry_of(line)
        if entry is None or entry.name in seen:
            raise refusal(
                path, number, f"is not `name==version --hash=sha256:...`, or a second one: {line!r}"
            )
        seen.add(entry.name)
        yield entry


def _title(name: str, of: str, lines: int) -> str:
    return f"[{name} {of}: {lines} line{'' if lines == 1 else 's'}]\n"


def _pairs(values: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(values):
        yield f"{name} = {values[name]}\n"
