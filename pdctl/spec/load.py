"""The arrow cluster.yaml -> Cluster: every mistake that needs no host, each with its line, all at once."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from pdctl.errors import ErrorGroup, Place, SpecError
from pdctl.knowledge.locks import is_lock
from pdctl.spec import rules
from pdctl.spec.compose import Document, Node, compose
from pdctl.spec.finding import Finding, Problem
from pdctl.spec.locate import find, place, plain, read, written
from pdctl.spec.model import Cluster
from pdctl.spec.rules.suppress import apart, suppressed
from pdctl.spec.rules.table import TABLE
from pdctl.spec.secrecy import leaks
from pdctl.spec.source import MAX_BYTES, Source, source

MOST_SHOWN = 100
LOCK_HINT = "name its spec; `pdctl validate` alone takes a lock, and says whether it is whole"
UNREADABLE_HINT = "`pdctl init` writes a starter file"


@dataclass(frozen=True)
class Text:
    """The file as it was read, to say where its keys stand."""

    source: Source
    root: Node

    def where(self, path: str) -> str:
        """`cluster.yaml:12:5: serving.decoders` for a key path of the spec, written with `[0]` or `.0`."""
        found = find(self.root, read(path))
        return str(self.source.place(found.node.offset, written(found.path)))

    def located(self, findings: Iterable[Finding]) -> list[SpecError]:
        return worded([place(self.root, finding) for finding in findings], self.source)


@dataclass(frozen=True)
class Inspection:
    """All that is known of a file. `cluster` is there when its shape is sound, whatever the rules say."""

    name: str
    found: tuple[SpecError, ...]  # in the order of the file, suppressed ones included
    left_out: int = 0
    cluster: Cluster | None = None
    text: Text | None = None
    suppressed: Mapping[str, str] = field(default_factory=dict)  # rule -> reason


@dataclass(frozen=True)
class Reading:
    """A valid spec, what is doubtful in it, and where its keys stand."""

    cluster: Cluster
    warnings: tuple[SpecError, ...]
    text: Text

    def where(self, path: str) -> str:
        return self.text.where(path)


def load(path: Path) -> Cluster:
    """Read the file at `path`. Raises ErrorGroup with every mistake, or SpecError when it cannot be read."""
    return check(path).cluster


def parse(text: str | bytes, name: str) -> Cluster:
    """Read a spec from its text; `name` is what errors call it."""
    return examine(text, name).cluster


def check(path: Path) -> Reading:
    """As `load`, with the warnings and the places."""
    return examine(contents(path), str(path))


def examine(text: str | bytes, name: str) -> Reading:
    """As `parse`, with the warnings and the places."""
    seen = inspect(text, name)
    kept, _ = apart(seen.suppressed, seen.found)
    if errors := [found for found in kept if found.severity == "error"]:
        raise group(errors, name, seen.left_out)
    assert seen.cluster is not None and seen.text is not None
    return Reading(seen.cluster, tuple(kept), seen.text)


def inspect(raw: str | bytes, name: str) -> Inspection:
    """Everything that is wrong or doubtful in the text, raising nothing."""
    try:
        origin = source(raw, name)
    except SpecError as error:
        return Inspection(name, (error,))
    if is_lock(origin.text):
        return Inspection(
            name, tuple(worded([Problem("SYNTAX015", 0, (), "is a lock, not a spec", LOCK_HINT)], origin))
        )
    document = compose(origin)
    verdict = _judge(document)
    flawed = {flaw.offset for flaw in document.problems if flaw.rule in ("SYNTAX003", "SYNTAX008")}
    told = [p for p in verdict.problems if not (p.offset in flawed and p.rule.startswith("TYPE"))]
    problems = [*told, *document.problems, *_new_leaks(origin, verdict.problems)]
    return Inspection(
        name,
        found=tuple(worded(problems, origin)),
        left_out=verdict.left_out,
        cluster=verdict.cluster,
        text=Text(origin, document.root) if document.root else None,
        suppressed=verdict.suppressed,
    )


def inspect_file(path: Path) -> Inspection:
    """As `inspect`, of a file; one that cannot be read is an error like any other."""
    try:
        return inspect(contents(path), str(path))
    except SpecError as error:
        return Inspection(str(path), (error,))


def contents(path: Path) -> bytes:
    """The bytes of the file, one more than is allowed at most. Raises SpecError when there are none.

    Opened without waiting, since a pipe might have no writer; whoever calls it reads pipes apart.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise unreadable(path, "is a pipe or a device, not a file")
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise unreadable(path, "does not exist") from None
    except IsADirectoryError:
        raise unreadable(path, "is a directory, not a file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise unreadable(path, f"cannot be read: {reason}") from None


def unreadable(path: Path, why: str) -> SpecError:
    return SpecError(why, where=Place(str(path)), hint=UNREADABLE_HINT, rule="FILE001")


def group(errors: Sequence[SpecError], name: str, left_out: int = 0) -> ErrorGroup:
    """The errors of one file as one."""
    total, first = len(errors) + left_out, errors[:MOST_SHOWN]
    more = f", the first {len(first)} are shown" if total > len(first) else ""
    return ErrorGroup(f"{total} error{'s' if total > 1 else ''} in {name}{more}", first)


def worded(problems: list[Problem], origin: Source) -> list[SpecError]:
    """In the order of the file."""
    return [
        SpecError(
            p.message,
            where=origin.place(p.offset, written(p.path)),
            hint=p.hint,
            rule=p.rule,
            severity=TABLE[p.rule].severity,
        )
        for p in sorted(problems, key=lambda p: p.offset)
    ]


class _Verdict(NamedTuple):
    """The cluster when its shape is good, what is wrong, and how many more complaints were left out."""

    cluster: Cluster | None
    problems: list[Problem]
    suppressed: Mapping[str, str]
    left_out: int = 0


def _judge(document: Document) -> _Verdict:
    root = document.root
    if root is None or not isinstance(root.value, dict):
        return _Verdict(None, _no_mapping(document), {})
    values = plain(root)
    try:
        cluster = Cluster.model_validate(values)
    except ValidationError as error:
        from pdctl.spec import shape  # words and difflib are needed only now

        broken = shape.broken(error)
        rest = shape.rest(values, broken)
        found = [*shape.findings(error, root, MOST_SHOWN), *rules.findings(rest, broken)]
        left_out = max(0, error.error_count() - MOST_SHOWN)
        return _Verdict(None, [place(root, f) for f in found], suppressed(rest), left_out)
    return _Verdict(cluster, [place(root, f) for f in rules.findings(cluster)], suppressed(cluster))


def _no_mapping(document: Document) -> list[Problem]:
    if document.problems:  # broken YAML says it all
        return []
    hint = f"it begins like `cluster: chat`; {UNREADABLE_HINT}"
    if document.root is None or document.root.value is None:
        return [Problem("SYNTAX015", 0, (), "is empty", hint)]
    return [Problem("SYNTAX015", document.root.offset, (), "must be a mapping of keys to values", hint)]


def _new_leaks(origin: Source, problems: list[Problem]) -> list[Problem]:
    told = {p.offset for p in problems if p.path[:1] == ("secrets",)}
    return [leak for leak in leaks(origin) if leak.offset not in told]
