"""JSON values -> frozen dataclasses, strictly: an unknown key or wrong type is an error with its path."""

from __future__ import annotations

import math
import types
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class ConfigError(Exception):
    """What is wrong with the configuration, in one line."""


def read(kind: type[T], raw: object, where: str = "") -> T:
    """Build `kind`, a dataclass, from a JSON object."""
    if not isinstance(raw, dict):
        raise ConfigError(f"{where or 'the file'}: expected an object, got {shown(raw)}")
    hints = get_type_hints(kind)
    known: dict[str, Field[Any]] = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    for key in raw:
        if key not in known:
            raise ConfigError(f"{joined(where, key)}: unknown key (known: {', '.join(sorted(known))})")
    for name, item in known.items():
        if name not in raw and item.default is MISSING and item.default_factory is MISSING:
            raise ConfigError(f"{joined(where, name)}: missing")
    return kind(**{key: value_of(hints[key], value, joined(where, key)) for key, value in raw.items()})


def value_of(hint: Any, raw: object, where: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        inner = [option for option in get_args(hint) if option is not type(None)]
        return None if raw is None else value_of(inner[0], raw, where)
    if origin is Literal:
        return choice(get_args(hint), raw, where)
    if origin is tuple:
        if not isinstance(raw, list):
            raise ConfigError(f"{where}: expected a list, got {shown(raw)}")
        return tuple(value_of(get_args(hint)[0], item, f"{where}[{i}]") for i, item in enumerate(raw))
    if is_dataclass(hint):
        return read(hint, raw, where)  # type: ignore[arg-type]
    return scalar(hint, raw, where)


def choice(options: tuple[Any, ...], raw: object, where: str) -> object:
    if raw not in options:
        raise ConfigError(f"{where}: expected one of {', '.join(options)}, got {shown(raw)}")
    return raw


def scalar(kind: type, raw: object, where: str) -> object:
    if kind is float and type(raw) is int:
        raw = float(raw)
    # `type is`, not isinstance: JSON's true is no port number, though Python's bool is an int.
    if type(raw) is not kind or (isinstance(raw, float) and not math.isfinite(raw)):
        names = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}
        raise ConfigError(f"{where}: expected {names[kind]}, got {shown(raw)}")
    return raw


def joined(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def shown(raw: object) -> str:
    names = {dict: "an object", list: "a list", type(None): "null", bool: str(raw).lower()}
    return names.get(type(raw), repr(raw)[:60])
