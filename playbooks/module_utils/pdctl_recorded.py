"""record.json -> the record, every type in it checked once; or one line that says what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ansible.module_utils.pdctl_rows import Row, row_of
from ansible.module_utils.pdctl_shapes import Broken, is_number, is_text, is_texts, is_time

VERSION = 1
META = ("applied_at", "by", "pdctl", "spec_digest")
Check = tuple[Callable[[Any], bool], str]  # and what a value is that does not pass
Fields = dict[str, Check]


def read_record(path: str, errors: list[str]) -> Row | None:
    """The record, or None when there is none or it cannot be used. Of a newer pdctl's only its version."""
    try:
        with open(path, encoding="utf-8") as handle:
            return checked(json.load(handle, parse_constant=_no_number))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, Broken) as error:
        errors.append(f"{path}: {error}")
        return None


def remembered(record: Row | None) -> list[Row]:
    """What the record says pdctl put here, or was putting here when it was interrupted."""
    if not record:
        return []
    pending = [dict(row_of(entry["id"]), secret=entry.get("secret", False)) for entry in record["pending"]]
    return list(record["resources"]) + pending


def checked(record: Any) -> Row:
    """Raises Broken. `created` is true where it does not say, as the controller reads it."""
    if not isinstance(record, dict):
        raise Broken("it is no JSON object")
    _check_fields(record, {"version": NUMBER}, {}, "")
    if record["version"] > VERSION:
        return {"version": record["version"], "resources": [], "pending": []}
    found: Row = {"resources": [], "pending": [], **record}
    _check_fields(found, {"resources": LIST, "pending": LIST}, PARTS, "")
    for number, row in enumerate(found["resources"]):
        _check_row(row, f"resources[{number}]")
    for number, entry in enumerate(found["pending"]):
        _check_fields(entry, {"id": ID}, PENDING, f"pending[{number}]")
    for key, debt in found.get("owed", {}).items():
        _check_fields(
            debt, {"invocation": TEXT}, {"causes": TEXTS, "peers": TEXTS}, f"owed[{json.dumps(key)}]"
        )
    if "reboot" in found:
        _check_fields(found["reboot"], {"boot": TEXT, "why": TEXTS}, {}, "reboot")
    for name in ("resources", "pending"):
        found[name] = [{"created": True, **row} for row in found[name]]
    if "owed" in found:
        found["owed"] = {key: {"causes": [], "peers": [], **debt} for key, debt in found["owed"].items()}
    return found


def _check_row(row: Any, where: str) -> None:
    _check_fields(row, {"kind": KIND}, {}, where)
    must, may = KINDS[row["kind"]]
    _check_fields(row, must, {**may, "created": FLAG}, where)


def _check_fields(value: Any, must: Fields, may: Fields, where: str) -> None:
    if not isinstance(value, dict):
        raise Broken(f"`{where}` is no JSON object")
    for name in must:
        if name not in value:
            raise Broken(f"`{where}` lacks `{name}`" if where else f"it lacks `{name}`")
    for name, (passes, words) in {**may, **must}.items():
        if name in value and not passes(value[name]):
            raise Broken(f"`{where}{'.' if where else ''}{name}` is {words}")


def _no_number(name: str) -> Any:
    raise ValueError(f"it is not JSON: {name}")


def _is_name(value: Any) -> bool:
    return is_text(value) and value != "" and "\0" not in value


def _is_path(value: Any) -> bool:
    return _is_name(value) and value.startswith("/")


def _is_id(value: Any) -> bool:
    kind, _, name = value.partition(":") if is_text(value) else ("", "", "")
    return kind in KINDS and (_is_path if "path" in KINDS[kind][0] else _is_name)(name)


def _is_object_of(passes: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(is_text(k) and passes(v) for k, v in value.items())


TEXT: Check = (is_text, "no text")
TEXTS: Check = (is_texts, "no list of texts")
NUMBER: Check = (is_number, "no number")
FLAG: Check = (lambda value: isinstance(value, bool), "neither true nor false")
LIST: Check = (lambda value: isinstance(value, list), "no list")
NAME: Check = (_is_name, "no name")
PATH: Check = (_is_path, "no absolute path")
ID: Check = (_is_id, "no `kind:name`")
KIND: Check = (lambda value: is_text(value) and value in KINDS, "no kind of resource")
TEXT_OR_NONE: Check = (lambda value: value is None or is_text(value), "no text")
PAIRS: Check = (
    lambda value: isinstance(value, list) and all(is_texts(pair) and len(pair) == 2 for pair in value),
    "no list of pairs",
)
NUMBERS: Check = (lambda value: isinstance(value, list) and all(map(is_number, value)), "no list of numbers")

# What must be there, and what may be: as pdctl/state/model.py has it; a test holds the two together.
OWNED: Fields = {"owner": TEXT, "group": TEXT, "mode": TEXT}
KINDS: dict[str, tuple[Fields, Fields]] = {
    "user": ({"name": NAME, "home": TEXT}, {"shell": TEXT}),
    "directory": ({"path": PATH}, OWNED),
    "file": (
        {"path": PATH, "digest": TEXT},
        {**OWNED, "secret": FLAG, "content": TEXT_OR_NONE, "source": TEXT_OR_NONE, "secret_env": PAIRS},
    ),
    "package": (
        {"name": NAME},
        {
            **dict.fromkeys(("version", "deb"), TEXT_OR_NONE),
            **dict.fromkeys(("deviations", "family", "strangers"), TEXTS),
            "hold": FLAG,
        },
    ),
    "venv": (
        {"path": PATH, "digest": TEXT, "python": TEXT},
        {**dict.fromkeys(("damage", "requirements", "wheels", "proofs"), TEXTS), "proof": TEXT},
    ),
    "weights": (
        {"path": PATH, "revision": TEXT},
        {
            **dict.fromkeys(("repo", "tool", "owner", "secrets", "manifest"), TEXT),
            **dict.fromkeys(("given", "offline"), FLAG),
            "damage": TEXTS,
            "environment": PAIRS,
        },
    ),
    "unit": (
        {"name": NAME},
        {
            **dict.fromkeys(("enabled", "restart"), FLAG),
            **dict.fromkeys(("active", "revision", "loaded", "invocation", "control"), TEXT),
            **dict.fromkeys(("instance", "role", "health_url"), TEXT),
            **dict.fromkeys(("deviations", "drained", "sides", "argv", "secret_names", "inputs"), TEXTS),
            **dict.fromkeys(("crashes", "fabric_s", "health_s"), NUMBER),
            "ports": NUMBERS,
            "environment": PAIRS,
            "limits": PAIRS,
        },
    ),
}
PENDING: Fields = {"created": FLAG, "secret": FLAG, "why": TEXT}
PARTS: Fields = {
    **dict.fromkeys(("cluster", *META), TEXT),
    "extras": TEXTS,
    "owed": (_is_object_of(lambda value: True), "no JSON object"),
    "reboot": (lambda value: isinstance(value, dict), "no JSON object"),
    "timings": (_is_object_of(is_time), "no JSON object of seconds"),
}
