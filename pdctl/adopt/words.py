"""argv and a --config file -> Command: positional words, and flags by their full names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pdctl.adopt.text import yaml_mapping
from pdctl.knowledge.adoption import LONG_FLAGS, MANY_WORDS, MAPPINGS, SHORT_FLAGS, SWITCHES

# A flag's value: text, several texts, a switch, or a mapping.
Value = str | tuple[str, ...] | bool | dict[str, Any]
SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Command:
    """What follows the name of the program. `given` are the words of each flag as they were written."""

    positional: tuple[str, ...]
    flags: Mapping[str, Value]
    given: Mapping[str, tuple[str, ...]]

    def text(self, name: str, default: str = "") -> str:
        value = self.flags.get(name, default)
        if isinstance(value, tuple):
            return value[0] if value else default
        return value if isinstance(value, str) else default

    def number(self, name: str) -> int | None:
        return whole_number(self.text(name))


def read_words(words: Sequence[str], files: Mapping[str, str] | None = None) -> Command:
    """The last spelling of a flag wins; words of the command line win over those of a `--config` file."""
    positional: list[str] = []
    flags: dict[str, Value] = {}
    given: dict[str, tuple[str, ...]] = {}
    for name, values, written in _pieces(list(words)):
        if not name:
            positional += values
            continue
        key, _, inner = name.partition(".")
        value = _value(key, values)
        if inner:
            mapping = flags.get(key)
            flags[key] = _set(dict(mapping) if isinstance(mapping, dict) else {}, inner, values)
            given[key] = (*given.get(key, ()), *written)
            continue
        key, value = _switched(key, value)
        flags[key], given[key] = value, written
    return _with_file(Command(tuple(positional), flags, given), files or {})


def whole_number(text: str) -> int | None:
    """`32768`, `32k` (1000s), `32K` (1024s), `1.5m`: vLLM arg_utils.py, human_readable_int."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgtKMGT]?)", text.strip())
    if match is None:
        return None
    number, suffix = match.groups()
    if "." in number and (not suffix or suffix.isupper()):
        return None
    return int(float(number) * SUFFIXES.get(suffix, 1)) if suffix else int(number)


def after_program(argv: Sequence[str]) -> list[str]:
    """The words that follow `python -m module`, `python script` or a program."""
    words = list(argv[1:])
    if not re.match(r"(python|pypy)[0-9.]*$", argv[0].rpartition("/")[2]):
        return words
    while words:
        word = words.pop(0)
        if word in ("-W", "-X"):
            words[:1] = []
        elif re.fullmatch(r"-[bBdEiIOPqsSuvx]*m", word):
            return words[1:]
        elif word.startswith("-m") or not word.startswith("-"):
            return words
    return []


def canonical(flag: str) -> str:
    """`tensor-parallel-size` for `--tensor_parallel_size`, `-tp`, `--tensor-par`; keys after a dot stay."""
    if not flag.startswith("--"):
        head, dot, inner = flag.partition(".")
        return SHORT_FLAGS.get(head, head.lstrip("-")) + dot + inner
    head, dot, inner = flag[2:].partition(".")
    head = head.replace("_", "-")
    if len(head) > 4 and head not in LONG_FLAGS:
        fits = [name for name in LONG_FLAGS if name.startswith(head)]
        head = fits[0] if len(fits) == 1 else head
    return head + dot + inner


def _pieces(words: list[str]) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """(flag or nothing, its values, as written)."""
    while words:
        word = words.pop(0)
        if not _is_flag(word):
            yield "", (word,), (word,)
            continue
        flag, equals, value = word.partition("=")
        if flag.startswith("-O") and flag != "-O" and not flag.startswith("-O."):  # -O3
            flag, equals, value = "-O", "=", flag[2:]
        name = canonical(flag)
        taken = (value,) if equals else tuple(_taken(name, words))
        yield name, taken, (word,) if equals else (word, *taken)


def _taken(name: str, words: list[str]) -> Iterator[str]:
    if name in SWITCHES or _positive(name) in SWITCHES or not words or _is_flag(words[0]):
        return
    yield words.pop(0)
    while name in MANY_WORDS and words and not _is_flag(words[0]):
        yield words.pop(0)


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not re.fullmatch(r"-(\d+(\.\d+)?)?", word)


def _positive(name: str) -> str:
    return name.removeprefix("no-")


def _switched(key: str, value: Value) -> tuple[str, Value]:
    """`--no-x` is x off; `--disable-log-requests` keeps its name."""
    return (_positive(key), False) if value is True and key.startswith("no-") else (key, value)


def _value(name: str, values: tuple[str, ...]) -> Value:
    if not values:
        return True
    if name in MAPPINGS:
        return as_mapping(values[0])
    return values if len(values) > 1 or name in MANY_WORDS else values[0]


def as_mapping(text: str) -> dict[str, Any] | str:
    """JSON of a mapping; text that is none, such as `3` for -O, or a masked one, stays text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def _set(mapping: dict[str, Any], path: str, values: tuple[str, ...]) -> dict[str, Any]:
    """`a.b V` sets a key in an inner mapping, `a.b+ V` appends to a list (vLLM FlexibleArgumentParser)."""
    key, _, rest = path.partition(".")
    if rest:
        inner = mapping.get(key)
        return mapping | {key: _set(dict(inner) if isinstance(inner, dict) else {}, rest, values)}
    value = _scalar(values[0]) if values else True
    if key.endswith("+"):
        return mapping | {key[:-1]: [*mapping.get(key[:-1], []), value]}
    return mapping | {key: value}


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _with_file(command: Command, files: Mapping[str, str]) -> Command:
    """Flags of the file named by `--config`: `tensor-parallel-size: 2`, lists, mappings, true and false."""
    text = files.get(command.text("config"))
    if text is None:
        return command
    flags, given = dict(command.flags), dict(command.given)
    for name, raw in yaml_mapping(text).items():
        key, value = _switched(canonical(f"--{name}"), _from_yaml(raw))
        if key not in flags:
            flags[key] = value
            given[key] = (f"{name}: {json.dumps(raw)}",)
    return Command(command.positional, flags, given)


def _from_yaml(raw: Any) -> Value:
    if isinstance(raw, bool | dict):
        return raw
    if isinstance(raw, list):
        return tuple(map(str, raw))
    return as_mapping(str(raw)) if str(raw).startswith("{") else str(raw)
