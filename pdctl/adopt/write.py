"""Draft -> the text of cluster.yaml: short mappings on one line, notes as comments where they belong."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from pdctl.adopt.draft import Draft
from pdctl.adopt.note import Kind, Note
from pdctl.errors import SpecError
from pdctl.knowledge.secrecy import REAL_TOKEN
from pdctl.spec.secrecy import mask

WIDTH = 100
ONE_LINE = 88  # longest mapping that stands on one line
BLOCKS = {"serving", "hosts", "secrets"}  # written with one entry a line
WORDS = {
    Kind.CONTRADICTION: "CONTRADICTION",
    Kind.LEFT_OUT: "not in this draft",
    Kind.GUESS: "guessed",
    Kind.DIFFERENT: "pdctl does it differently",
    Kind.SECRET: "secret",
}
HEAD = """\
Draft of what runs on {hosts}, written by `pdctl adopt`: read it before you use it.
Check it with `pdctl validate`, see what it would change with `pdctl diff`.
The processes it was read from hold their GPUs and ports: stop them before `pdctl apply`.
"""
SECRETS = "Values never stand here: set these variables on this machine for `pdctl diff` and `pdctl apply`."


def draft_text(draft: Draft) -> str:
    """The file. Raises SpecError should anything in it still look like a secret."""
    root = _mapping(draft.values, ())
    _comment(root, draft.notes)
    root.yaml_set_start_comment("\n".join(_head(draft)) + "\n")
    yaml = YAML()
    yaml.width = 4096  # a folded line would make two of an argument
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(root, stream)
    text = stream.getvalue()
    if re.search(REAL_TOKEN, text):
        raise SpecError("the draft would hold what looks like a secret; it was not written")
    return text


def comment_lines(notes: Iterable[Note]) -> list[str]:
    """A note in the words of the file."""
    found = []
    for note in notes:
        original = f" [{note.original}]" if note.original else ""
        found.append(_plain(f"{WORDS[note.kind]}: {note.where}: {note.text}{original}"))
    return found


def _head(draft: Draft) -> list[str]:
    hosts = ", ".join(seen.name for seen in draft.deployment.hosts)
    lines = HEAD.format(hosts=hosts).splitlines()
    for problem in draft.problems:
        lines.append(_plain(f"NOT VALID YET: {problem.message}"))
    return lines


def _comment(root: CommentedMap, notes: Sequence[Note]) -> None:
    """Each note before the deepest key of its section that the draft has."""
    places: dict[tuple[str, ...], list[Note]] = {}
    for note in notes:
        section = note.section
        while section and _at(root, section) is None:
            section = section[:-1]
        places.setdefault(section or ("cluster",), []).append(note)
    if "secrets" in root:
        places.setdefault(("secrets",), [])
    for section, some in places.items():
        lines = comment_lines(
            note for note in some if note.kind is not Kind.SECRET or "secrets" not in section
        )
        if section == ("secrets",):
            lines = [SECRETS, *lines]
        holder = _at(root, section[:-1])
        if lines and isinstance(holder, CommentedMap):
            indent = 2 * (len(section) - 1)
            holder.yaml_set_comment_before_after_key(section[-1], before="\n".join(lines), indent=indent)


def _at(root: CommentedMap, section: Sequence[str]) -> Any:
    value: Any = root
    for key in section:
        value = value.get(key) if isinstance(value, CommentedMap) else None
    return value


def _mapping(values: dict[str, Any], path: tuple[str, ...]) -> CommentedMap:
    found = CommentedMap()
    for key, value in values.items():
        found[key] = _value(value, (*path, key))
    if path and path[-1] not in BLOCKS and len(json.dumps(values)) <= ONE_LINE:
        found.fa.set_flow_style()
    return found


def _value(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return _mapping(value, path)
    if isinstance(value, list):
        items = CommentedSeq(_value(item, (*path, "")) for item in value)
        if path[-1] not in BLOCKS and not any(
            isinstance(item, dict) and len(str(item)) > 40 for item in value
        ):
            items.fa.set_flow_style()
        return items
    if isinstance(value, str) and _is_version(path):
        return DoubleQuotedScalarString(value)  # versions are text
    return value


def _is_version(path: tuple[str, ...]) -> bool:
    return path[-1] == "hash_seed" or (path[0] == "stack" and path[-1] != "base")


def _plain(text: str) -> str:
    """One line without anything that ends a comment or looks like a secret."""
    return mask(" ".join("".join(c if c.isprintable() else " " for c in text).split()))
