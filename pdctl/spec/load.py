"""The arrow cluster.yaml -> Cluster: every mistake that needs no host, each with its line, all at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from pdctl.errors import ErrorGroup, SpecError
from pdctl.spec import rules
from pdctl.spec.compose import Document, Node, compose
from pdctl.spec.finding import Problem
from pdctl.spec.locate import find, place, plain, read, written
from pdctl.spec.model import Cluster
from pdctl.spec.secrecy import leaks
from pdctl.spec.source import MAX_BYTES, Source, source

MOST_SHOWN = 100


@dataclass(frozen=True)
class Reading:
    """A valid spec, what is doubtful in it, and where its keys stand."""

    cluster: Cluster
    warnings: tuple[SpecError, ...]
    source: Source
    root: Node

    def where(self, path: str) -> str:
        """`cluster.yaml:12:5: serving.decoders` for a key path of the spec, written with `[0]` or `.0`."""
        found = find(self.root, read(path))
        return self.source.where(found.node.offset, written(found.path))


def load(path: Path) -> Cluster:
    """Read the file at `path`. Raises ErrorGroup with every mistake, or SpecError when it cannot be read."""
    return check(path).cluster


def parse(text: str | bytes, name: str) -> Cluster:
    """Read a spec from its text; `name` is what errors call it."""
    return examine(text, name).cluster


def check(path: Path) -> Reading:
    """As `load`, with the warnings and the places."""
    return examine(_contents(path), str(path))


def examine(text: str | bytes, name: str) -> Reading:
    """As `parse`, with the warnings and the places."""
    try:
        origin = source(text, name)
    except SpecError as error:
        raise _group([error], name) from None
    document = compose(origin)
    cluster, problems, left_out = _judge(document)
    problems += [*document.problems, *_new_leaks(origin, problems)]
    if errors := [p for p in problems if p.severity == "error"]:
        raise _group(_worded(errors, origin), name, left_out)
    assert cluster is not None and document.root is not None
    return Reading(cluster, tuple(_worded(problems, origin)), origin, document.root)


def _contents(path: Path) -> bytes:
    hint = "`pdctl init` writes a starter file"
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SpecError("does not exist", where=str(path), hint=hint) from None
    except IsADirectoryError:
        raise SpecError("is a directory, not a file", where=str(path), hint=hint) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(f"cannot be read: {reason}", where=str(path), hint=hint) from None


def _judge(document: Document) -> tuple[Cluster | None, list[Problem], int]:
    """The cluster when its shape is good, what is wrong, and how many more complaints were left out."""
    root = document.root
    if root is None or not isinstance(root.value, dict):
        return None, _no_mapping(document), 0
    values = plain(root)
    try:
        cluster = Cluster.model_validate(values)
    except ValidationError as error:
        from pdctl.spec import shape  # words and difflib are needed only now

        broken = shape.broken(error)
        found = [
            *shape.findings(error, root, MOST_SHOWN),
            *rules.findings(shape.rest(values, broken), broken),
        ]
        return None, [place(root, f) for f in found], max(0, error.error_count() - MOST_SHOWN)
    return cluster, [place(root, f) for f in rules.findings(cluster)], 0


def _no_mapping(document: Document) -> list[Problem]:
    if document.problems:  # broken YAML says it all
        return []
    hint = "it begins like `cluster: chat`; `pdctl init` writes a starter file"
    if document.root is None or document.root.value is None:
        return [Problem(0, (), "is empty", hint)]
    return [Problem(document.root.offset, (), "must be a mapping of keys to values", hint)]


def _new_leaks(origin: Source, problems: list[Problem]) -> list[Problem]:
    told = {p.offset for p in problems if p.path[:1] == ("secrets",)}
    return [leak for leak in leaks(origin) if leak.offset not in told]


def _group(errors: list[SpecError], name: str, left_out: int = 0) -> ErrorGroup:
    total, first = len(errors) + left_out, errors[:MOST_SHOWN]
    more = f", the first {len(first)} are shown" if total > len(first) else ""
    return ErrorGroup(f"{total} error{'s' if total > 1 else ''} in {name}{more}", first)


def _worded(problems: list[Problem], origin: Source) -> list[SpecError]:
    """In the order of the file."""
    return [
        SpecError(p.message, where=origin.where(p.offset, written(p.path)), hint=p.hint)
        for p in sorted(problems, key=lambda p: p.offset)
    ]
