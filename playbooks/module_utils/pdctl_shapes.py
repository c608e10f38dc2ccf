"""What lies in the cluster's own folder on this host -> objects of the right shape, or why they are none."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from ansible.module_utils.pdctl_rows import Row

PIDS, NUMBERS = 2**31, 2**63  # pid_t and C's long long: what the controller hands to its system


class Broken(Exception):
    """Why something is not what pdctl wrote there; pdctl renames files into place whole, so others did it."""


def is_text(value: Any) -> bool:
    """Half a surrogate pair is none: nobody could print it."""
    return isinstance(value, str) and value.encode("utf-8", "replace").decode() == value


def is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def is_pid(value: Any) -> bool:
    return type(value) is int and 0 <= value < PIDS


def is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < NUMBERS


def is_number_or_none(value: Any) -> bool:
    return value is None or is_number(value)


def is_time(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < NUMBERS and math.isfinite(value)


Shape = dict[str, Callable[[Any], bool]]

# What must be there, and what may be: as pdctl_lock, pdctl_generations and pdctl_journal write them.
LOCK_MUST: Shape = {"by": is_text, "command": is_text, "token": is_text}
LOCK_MAY: Shape = {
    "machine": is_text,
    "boot": is_text,
    "pid_namespace": is_text,
    "pid": is_pid,
    "started": is_number,
}
MANIFEST_MUST: Shape = {
    "number": is_number,
    "begun": is_time,
    "state": is_text,
    "spec": is_text,
    "rows": is_text,
}
MANIFEST_MAY: Shape = {
    **dict.fromkeys(("at", "by", "pdctl", "what", "command", "digest", "token", "lock", "life"), is_text),
    **dict.fromkeys(("venvs", "blobs"), is_texts),
    "restores": is_number_or_none,
}
ENTRY_MUST: Shape = {"generation": is_number, "step": is_text, "event": is_text, "time": is_time}
ENTRY_MAY: Shape = {"by": is_text}


def shaped(data: bytes, must: Shape, may: Shape) -> Row:
    """The object that `data` says as JSON. Raises Broken."""
    if not data.strip():
        raise Broken("it is empty")
    try:
        value = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise Broken("it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise Broken(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Broken("it is not a JSON object")
    if missing := [name for name in must if name not in value]:
        raise Broken(f"it lacks `{missing[0]}`")
    shape = {**may, **must}
    wrong = [name for name in value if name in shape and not shape[name](value[name])]
    if wrong:
        raise Broken(f"its `{wrong[0]}` is not what pdctl writes")
    return value
