"""`extra_args` -> flags with their values, whichever way they are spelled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pdctl.knowledge.matching import SAME_FIELD, SHORT_FLAGS

# Deeper values are compared as text: no setting of vLLM's comes near, and recursion has an end.
MOST_NESTED = 16
MOST_BRACKETS = 256
FLAG = re.compile(r"-{1,2}[A-Za-z][A-Za-z0-9_-]*")
NEGATIVE = re.compile(r"-[0-9.]")


class Given(NamedTuple):
    """One flag as given: `--a-b.c=v` is flag `--a-b`, key `c`, value `v`; alone its value is `true`."""

    flag: str
    key: str
    value: str
    at: int  # index of its word in the list


def given(words: Sequence[str]) -> Iterator[Given]:
    """Every flag, in order. vLLM takes `_` for `-`, `--no-x`, `--x.key v`, `--x=v` and `--x v`."""
    i = 0
    while i < len(words):
        name, joined, value = words[i].partition("=")
        at, i = i, i + 1
        if not name.startswith("-") or NEGATIVE.match(name):
            continue
        name, spaced, rest = name.partition(" ")  # a flag and its value in one word
        value = value if joined else rest if spaced else value
        if not joined and not spaced and i < len(words) and _is_value(words[i]):
            value, joined, i = words[i], " ", i + 1
        yield _given(name, value if joined or spaced else "true", at)


def effective(words: Sequence[str]) -> dict[str, tuple[Any, int]]:
    """Flag -> what the engine makes of it, and where; the last one counts, keys are put together."""
    found: dict[str, tuple[Any, int]] = {}
    for each in given(words):
        flag, value = each.flag, _read(each.value)
        if each.key:
            before = found.get(flag, ({}, 0))[0]
            keys = each.key.split(".", MOST_NESTED)
            value = _with(before if isinstance(before, dict) else {}, keys, value)
        found[flag] = (value, each.at)
    for (flag, key), same in SAME_FIELD.items():
        value, index = found.get(flag, (None, 0))
        if isinstance(value, dict) and key in value:
            rest = {name: item for name, item in value.items() if name != key}
            found[same] = (value[key], index)
            found.pop(flag)
            if rest:
                found[flag] = (rest, index)
    return found


def _given(name: str, value: str, at: int) -> Given:
    flag, _, key = name.partition(".")
    flag = SHORT_FLAGS.get(flag, flag.replace("_", "-"))
    if flag.startswith("--no-"):
        opposite = {"true": "false", "false": "true"}.get(value.lower(), "false")
        return Given("--" + flag[5:], key, opposite, at)
    return Given(flag, key, value, at)


def _is_value(word: str) -> bool:
    return not FLAG.match(word)


def _read(text: str) -> Any:
    """JSON where it is some, so that spaces and the order of keys make no difference; else the text."""
    if text.count("[") + text.count("{") > MOST_BRACKETS:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False}.get(text, text)


def _with(value: dict[str, Any], keys: Sequence[str], new: Any) -> dict[str, Any]:
    if len(keys) == 1:
        return {**value, keys[0]: new}
    inner = value.get(keys[0])
    return {**value, keys[0]: _with(inner if isinstance(inner, dict) else {}, keys[1:], new)}
