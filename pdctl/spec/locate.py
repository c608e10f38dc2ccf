"""Key path -> place in the text, and the tree of nodes -> plain values for the model."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pdctl.spec.compose import Node
from pdctl.spec.finding import Finding, Path, Problem
from pdctl.spec.secrecy import mask, shown

PLAIN_KEY = re.compile(r"[A-Za-z0-9_.<?-]{1,64}")
STEP = re.compile(r"[^.\[\]]+")


class Found(NamedTuple):
    """The deepest node on a path that the file really holds; shorthand forms end earlier than the model."""

    node: Node
    path: Path
    key_offset: int


def find(root: Node, path: Path) -> Found:
    node, key_offset = root, root.offset
    for depth, step in enumerate(path):
        inside = node.value
        if isinstance(inside, dict) and step in inside:
            key_offset, node = inside[str(step)]
        elif isinstance(inside, list) and isinstance(step, int) and step < len(inside):
            node = inside[step]
            key_offset = node.offset
        else:
            return Found(node, path[:depth], key_offset)
    return Found(node, path, key_offset)


def place(root: Node, finding: Finding) -> Problem:
    """Where in the text a finding is."""
    found = find(root, finding.path)
    offset = found.key_offset if finding.on_key else found.node.offset
    return Problem(finding.rule, offset, found.path, finding.message, finding.hint)


def plain(node: Node) -> Any:
    """The node as dicts, lists and scalars."""
    if isinstance(node.value, dict):
        return {key: plain(entry.node) for key, entry in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def written(path: Path) -> str:
    """`hosts[0].gpus`"""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if PLAIN_KEY.fullmatch(step) and mask(step) == step else shown(step)
            text += f".{name}" if text else name
    return text


def read(text: str) -> Path:
    """The path written as `hosts[0].gpus` or `hosts.0.gpus`."""
    return tuple(int(step) if step.isdecimal() else step for step in STEP.findall(text))
