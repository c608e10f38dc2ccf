"""Key path -> what a field means: its type, default, unit and allowed values, and an example."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pdctl.spec.example import example_of
from pdctl.spec.fields import walk
from pdctl.spec.rules.table import TABLE
from pdctl.spec.schema import Json, default_of, json_schema, property_at, type_words
from pdctl.spec.shape import OTHER_NAMES

# The end of a field's name, or all of it -> what its number counts.
UNITS = (
    (r"_ms", "milliseconds"),
    (r"_tokens_per_s", "tokens per second"),
    (r"_gib_per_s", "GiB per second"),
    (r"_s", "seconds"),
    (r"_gib", "GiB"),
    (r"_bytes|\.bytes_per_value", "bytes"),
    (r"max_model_len|input_len|output_len|chunk_size|max_num_batched_tokens", "tokens"),
    (r"gpu_memory_utilization|attainment", "share, 1 is all"),
)


@dataclass(frozen=True)
class Explanation:
    """One field. `keys` are what stands inside it, for a section."""

    path: str
    type: str
    required: bool
    default: str | None  # None when it is required, or depends on other fields
    allowed: tuple[str, ...]
    unit: str | None
    meaning: str
    keys: tuple[tuple[str, str], ...]
    rules: tuple[str, ...]  # that speak of it
    example: str


def explain(path: str) -> Explanation | None:
    """The field at `path`, written `hosts[].gpus`, `hosts[0].gpus` or `hosts.gpus`; None where none is."""
    fields = dict(walk())
    schema = json_schema()
    found = _field(schema, {_steps(name): name for name in fields}, _steps(path))
    if found is None:
        return None
    field, info = property_at(schema, found), fields[found]
    return Explanation(
        path=found,
        type=type_words(field),
        required=info.is_required(),
        default=default_of(field, False).strip("`") or None,
        allowed=tuple(_choices(field)),
        unit=next((unit for end, unit in UNITS if re.search(rf"({end})$", found)), None),
        meaning=str(info.description),
        keys=tuple(_keys(found)),
        rules=tuple(_rules(found)),
        example=example_of(found),
    )


def nearest(path: str) -> list[str]:
    """Fields whose path or last key is spelled alike, the likeliest first."""
    from difflib import get_close_matches  # needed only when there is no such field

    fields = [name for name, _ in walk()]
    by_key: dict[str, list[str]] = {}
    for name in fields:
        by_key.setdefault(_steps(name)[-1], []).append(name)
    wanted = path.lower().replace("-", "_")
    wanted = OTHER_NAMES.get(wanted, wanted)
    last = (_steps(wanted) or ("",))[-1]
    keys = [last] if last in by_key else get_close_matches(last, by_key, 2, 0.7)
    whole = get_close_matches(wanted, fields, 3, 0.8)
    return list(dict.fromkeys([*whole, *(name for key in keys for name in by_key[key])]))[:5]


def top() -> list[tuple[str, str]]:
    """The keys of the file, each with its meaning."""
    return [(name, str(info.description)) for name, info in walk() if "." not in name]


def _field(schema: Json, known: dict[tuple[str, ...], str], steps: tuple[str, ...]) -> str | None:
    """The path in the model; a key inside `env` or `labels` is the user's own and leads to the mapping."""
    for name_steps, name in known.items():
        if len(name_steps) == len(steps) and all(
            step in (want, "NAME") for step, want in zip(name_steps, steps, strict=True)
        ):
            return name
    outer = known.get(steps[:-1])
    inner = property_at(schema, outer).get("additionalProperties") if outer else None
    return outer if isinstance(inner, dict) and "$ref" not in inner else None


def _steps(path: str) -> tuple[str, ...]:
    return tuple(step for step in re.split(r"[.\[\]]+", path) if step and not step.isdecimal())


def _choices(field: Json) -> Iterator[str]:
    for option in field.get("anyOf", [field]):
        yield from map(str, option.get("enum", ()))


def _rules(path: str) -> Iterator[str]:
    """The rules whose words name the key."""
    said = (f"`{path}`", f"`{path.rpartition('.')[2]}`")
    for rule in TABLE.values():
        if any(name in f"{rule.title} {rule.why} {rule.mend}" for name in said):
            yield rule.id


def _keys(path: str) -> Iterator[tuple[str, str]]:
    inside = re.compile(rf"{re.escape(path)}(\[\])?(\.NAME)?\.([a-z0-9_]+)")
    for name, info in walk():
        if match := inside.fullmatch(name):
            yield match[3], str(info.description)
