"""`extra_args` -> flags with their values, whichever way they are spelled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pdctl.knowledge.flags import ALIASES, FLAGS, MANY_WORDS, OPTIONS, REPEATED, SHORT_FLAGS, SWITCHES
from pdctl.knowledge.matching import SAME_FIELD

# Deeper values are compared as text: no setting of vLLM's comes near, and recursion has an end.
MOST_NESTED = 16
MOST_BRACKETS = 256
FLAG = re.compile(r"-{1,2}[A-Za-z][A-Za-z0-9_-]*")
WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")  # what Python's int() takes; longer ones stay text
LONGEST_WHOLE = 20
TRUTHS = frozenset({"true", "false", "yes", "no", "on", "off", "1", "0"})
GLUED = ("-q", "-n", "-r")  # of one letter, so that a value may follow at once


class Given(NamedTuple):
    """One flag as given: `--a-b.c=v` is flag `--a-b`, key `c`, value `v`; alone its value is `true`."""

    flag: str
    key: str
    value: str
    at: int  # index of its word in the list
    alone: bool = False  # without a value
    fits: tuple[str, ...] = ()  # the flags that it could be, where that is not clear


def given(words: Sequence[str]) -> Iterator[Given]:
    """Every flag, in order.

    vLLM takes `_` for `-`, `--no-x`, `--x.key v`, `--x=v`, `--x v`, and a beginning that fits one flag.
    """
    yield from (each for each, _ in _walk(words) if each is not None)


def strays(words: Sequence[str]) -> Iterator[int]:
    """Where words stand that are no flags, nor values of one."""
    yield from (at for each, at in _walk(words) if each is None)


def _walk(words: Sequence[str]) -> Iterator[tuple[Given | None, int]]:
    i = 0
    while i < len(words):
        name, joined, value = words[i].partition("=")
        at, i = i, i + 1
        if not FLAG.match(name):
            yield None, at
            continue
        name, spaced, rest = name.partition(" ")  # a flag and its value in one word
        value = value if joined else rest if spaced else value
        flag, key, fits = _named(name)
        if name[:2] in GLUED and name not in SHORT_FLAGS and not joined:
            flag, value, joined = SHORT_FLAGS[name[:2]], name[2:], " "
        while not joined and not spaced and i < len(words) and _is_value(words[i], flag):
            value, i = f"{value} {words[i]}" if value else words[i], i + 1
            joined = "" if flag in MANY_WORDS else " "
        alone = not joined and not spaced and not value
        yield _given(flag, key, "true" if alone else value, at, alone, fits), at


def effective(words: Sequence[str]) -> dict[str, tuple[Any, int]]:
    """Flag -> what the engine makes of it, and where; the last one counts, keys are put together."""
    found: dict[str, tuple[Any, int]] = {}
    for each in given(words):
        flag, value = each.flag, read_value(each.value)
        if each.key:
            before = found.get(flag, ({}, 0))[0]
            keys = each.key.split(".", MOST_NESTED)
            value = _with(before if isinstance(before, dict) else {}, keys, value)
        elif flag in REPEATED:
            value = [*found.get(flag, ([], 0))[0], value]
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


def _named(name: str) -> tuple[str, str, tuple[str, ...]]:
    """The flag that a name stands for, its key, and what it could be where that is not clear."""
    head, _, key = name.partition(".")
    head = SHORT_FLAGS.get(head, head.replace("_", "-"))
    if head in FLAGS or head in OPTIONS:
        return ALIASES.get(head, head), key, ()
    found = [option for option in OPTIONS if option.startswith(head)] if head.startswith("--") else []
    if not found:
        return head, key, ()
    # vLLM 0.32.0 refuses `--kv-cache-dt`, which fits `--kv-cache-dtype-skip-layers` too; 0.11.0 has only one.
    first = min(found, key=len)
    if all(option.startswith(first) for option in found):
        return ALIASES.get(first, first), key, ()
    return head, key, tuple(found)


def _given(flag: str, key: str, value: str, at: int, alone: bool, fits: tuple[str, ...]) -> Given:
    if flag.startswith("--no-"):
        opposite = {"true": "false", "false": "true"}.get(value.lower(), "false")
        return Given("--" + flag[5:], key, opposite, at, alone, fits)
    return Given(flag, key, value, at, alone, fits)


def _is_value(word: str, flag: str) -> bool:
    """Whether it was meant as the flag's: a switch has none but what people take for one."""
    switch = flag in SWITCHES or flag.startswith("--no-")
    return word.lower() in TRUTHS if switch else not FLAG.match(word)


def read_value(text: str) -> Any:
    """JSON where it is some: spaces, zeros and the order of keys make no difference; else the text."""
    if WHOLE.fullmatch(text) and len(text) <= LONGEST_WHOLE:
        return int(text)
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
