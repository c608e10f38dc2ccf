"""Source -> Document: the tree of YAML nodes, each with its place in the text; nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from pdctl.spec.finding import Path, Problem
from pdctl.spec.scalar import LEADING_ZERO, Scalar, resolve
from pdctl.spec.secrecy import shown
from pdctl.spec.source import Source
from pdctl.spec.syntax import MalformedError, words

HALF = re.compile("[\ud800-\udfff]")
MAX_DEPTH = 32  # the spec's own depth is 7
MAX_NODES = 200_000  # after anchors are expanded; 2,000 hosts and 4,000 placed instances take a third


class Node:
    """A value of the file. `text` is a scalar as written; `weight` and `height` count what is inside."""

    __slots__ = ("height", "offset", "quoted", "text", "value", "weight")

    def __init__(self, offset: int, value: Scalar | list[Node] | dict[str, Entry]) -> None:
        self.offset = offset
        self.value = value
        self.text = ""
        self.quoted = False
        self.weight = 1
        self.height = 1


class Entry(NamedTuple):
    """A key's place and its value."""

    offset: int
    node: Node


class Document:
    """The root (None when the file is empty), and what is wrong with the YAML itself."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.problems: list[Problem] = []


class _Reading:
    """One pass over the events."""

    def __init__(self, source: Source, events: Iterator[Any], document: Document) -> None:
        self.source = source
        self.events = events
        self.document = document
        self.anchors: dict[str, Node | None] = {}  # None while the node is still open
        self.nodes = 0
        self.halves: set[int] = set()  # offsets of scalars with half a character

    def flaw(self, rule: str, offset: int, path: Path, message: str, hint: str | None = None) -> None:
        self.document.problems.append(Problem(rule, offset, path, message, hint))


def compose(source: Source) -> Document:
    """Read one document; duplicate keys, tags and odd keys are collected, broken YAML ends the reading."""
    document = Document()
    events = YAML(typ="safe", pure=True).parse(source.text)
    try:
        _document(_Reading(source, events, document))
    except MalformedError as error:
        document.problems.append(Problem(error.rule, error.offset, (), error.message, error.hint))
    except YAMLError as error:
        document.problems.append(words(error, source))
    return document


def _document(reading: _Reading) -> None:
    next(reading.events)  # stream start
    start = next(reading.events)
    if isinstance(start, StreamEndEvent):
        return
    _refuse_directives(start)
    reading.document.root = _node(reading, next(reading.events), (), 1)
    next(reading.events)  # document end
    after = next(reading.events)
    if isinstance(after, DocumentStartEvent):
        raise MalformedError(
            "SYNTAX012", after.start_mark.index, "a second document begins here", "keep one cluster per file"
        )


def _refuse_directives(start: DocumentStartEvent) -> None:
    if start.version not in (None, (1, 2)) or start.tags:
        raise MalformedError(
            "SYNTAX013", 0, "the file asks for another YAML than 1.2", "remove the lines that begin with `%`"
        )


def _node(reading: _Reading, event: Any, path: Path, depth: int) -> Node:
    offset = event.start_mark.index
    if isinstance(event, AliasEvent):
        return _alias(reading, event, depth)
    reading.nodes += 1
    _refuse_excess(reading, offset, depth)
    if event.tag is not None:
        reading.flaw(
            "SYNTAX008",
            offset,
            path,
            "tags (`!...`) are not used here",
            'remove it; text goes in quotes: "1.10"',
        )
    if event.anchor is not None:
        reading.anchors[event.anchor] = None
    if isinstance(event, ScalarEvent):
        node = _scalar(reading, event, path)
    elif isinstance(event, MappingStartEvent):
        node = _mapping(reading, offset, path, depth)
    else:
        node = _sequence(reading, offset, path, depth)
    if event.anchor is not None:
        reading.anchors[event.anchor] = node
    return node


def _refuse_excess(reading: _Reading, offset: int, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise MalformedError(
            "SYNTAX005", offset, f"values are nested more than {MAX_DEPTH} levels deep", "flatten it"
        )
    if reading.nodes > MAX_NODES:
        raise MalformedError(
            "SYNTAX006",
            offset,
            f"the file holds more than {MAX_NODES:,} values once its anchors are expanded",
            "split the cluster, or repeat less through anchors",
        )


def _alias(reading: _Reading, event: AliasEvent, depth: int) -> Node:
    offset = event.start_mark.index
    node = reading.anchors.get(event.anchor)
    if node is None:
        raise MalformedError(
            "SYNTAX011",
            offset,
            "an alias refers to itself" if event.anchor in reading.anchors else "an alias without an anchor",
            "quote the value if the `*` belongs to it",
        )
    reading.nodes += node.weight
    _refuse_excess(reading, offset, depth + node.height - 1)
    return node


def _scalar(reading: _Reading, event: ScalarEvent, path: Path) -> Node:
    plain = event.style is None or event.style == ""
    text = _whole_characters(reading, event, path)
    node = Node(event.start_mark.index, resolve(text) if plain else text)
    node.text, node.quoted = text, not plain
    if plain and LEADING_ZERO.fullmatch(text) and path[:1] != ("secrets",):
        short = text[:40]
        reading.flaw(
            "SYNTAX010",
            node.offset,
            path,
            f"{short} begins with 0: some read it as octal",
            f'write {int(short)}, or "{short}" if it is text',
        )
    return node


def _whole_characters(reading: _Reading, event: ScalarEvent, path: Path) -> str:
    """JSON writes a character beyond U+FFFF as two escapes, which YAML takes for two halves."""
    text: str = event.value
    if not HALF.search(text):
        return text
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if text.count("\ufffd") > event.value.count("\ufffd"):
        reading.halves.add(event.start_mark.index)
        reading.flaw(
            "SYNTAX003",
            event.start_mark.index,
            path,
            "an escape stands for half of a character",
            "write both halves, or the character itself",
        )
    return text


def _sequence(reading: _Reading, offset: int, path: Path, depth: int) -> Node:
    items: list[Node] = []
    node = Node(offset, items)
    while not isinstance(event := next(reading.events), SequenceEndEvent):
        items.append(item := _node(reading, event, (*path, len(items)), depth + 1))
        _grow(node, item)
    return node


def _mapping(reading: _Reading, offset: int, path: Path, depth: int) -> Node:
    entries: dict[str, Entry] = {}
    while not isinstance(event := next(reading.events), MappingEndEvent):
        key = _key(reading, event, path, depth)
        value = _node(reading, next(reading.events), (*path, key or "?"), depth + 1)
        if key in entries:
            _duplicate(reading, event.start_mark.index, entries[key].offset, path, key)
        elif key is not None:
            entries[key] = Entry(event.start_mark.index, value)
    node = Node(offset, entries)
    for entry in entries.values():
        _grow(node, entry.node)
    _merge(reading, entries, path)
    return node


def _merge(reading: _Reading, entries: dict[str, Entry], path: Path) -> None:
    """`<<: *anchor` or `<<: [*a, *b]`: the mapping's own keys win, then the earlier ones."""
    if "<<" not in entries:
        return
    value = entries.pop("<<").node
    found = value.value if isinstance(value.value, list) else [value]
    for other in found:
        if not isinstance(other.value, dict):
            reading.flaw(
                "SYNTAX011", other.offset, (*path, "<<"), "`<<` must name a mapping", "write `<<: *anchor`"
            )
            continue
        for key, entry in other.value.items():
            entries.setdefault(key, entry)


def _grow(node: Node, child: Node) -> None:
    node.weight += child.weight
    node.height = max(node.height, child.height + 1)


def _key(reading: _Reading, event: Any, path: Path, depth: int) -> str | None:
    """The key as text; None, with the flaw noted, when it is none."""
    node = _node(reading, event, (*path, "?"), depth + 1)
    if isinstance(node.value, str):
        return None if node.offset in reading.halves else node.value
    hidden = path[:1] == ("secrets",) or isinstance(node.value, list | dict)
    reading.flaw(
        "SYNTAX009",
        event.start_mark.index,
        path,
        "a key is not text" if hidden else f"the key {shown(node.text)} is not text",
        None if hidden or not node.text else f'write "{node.text[:40]}"',
    )
    return None


def _duplicate(reading: _Reading, offset: int, first: int, path: Path, key: str) -> None:
    hidden = path[:1] == ("secrets",) and len(path) > 1
    reading.flaw(
        "SYNTAX007",
        offset,
        path,
        f"the key {'' if hidden else shown(key) + ' '}is already given on line {reading.source.line(first)}",
        "keep one of them",
    )
