"""request -> answer: what one host holds of the resources asked about, read anew on every call."""

from __future__ import annotations

import json
import os

from ansible.module_utils.pdctl_observe_facts import bundle_files, facts
from ansible.module_utils.pdctl_observe_files import contents, observe_directory, observe_file, observe_user
from ansible.module_utils.pdctl_observe_packages import observe_packages
from ansible.module_utils.pdctl_observe_units import observe_units
from ansible.module_utils.pdctl_observe_venvs import observe_venv

ONE_BY_ONE = {
    "user": lambda row, cluster: observe_user(row),
    "directory": lambda row, cluster: observe_directory(row),
    "file": observe_file,
    "venv": lambda row, cluster: observe_venv(row),
}
ALL_AT_ONCE = {"package": observe_packages, "unit": observe_units}


def observe(request: dict) -> dict:
    """The probe's whole answer."""
    errors: list = []
    record = read_record(request["record"], errors)
    wanted = list(request.get("resources", []))
    asked = wanted + remembered(record)
    ours = {row["path"] for row in asked if row["kind"] == "file"}
    rows = observe_rows(asked, request["cluster"], errors, ours)
    return {
        "resources": rows,
        "record": record,
        "contents": contents(wanted, rows, request.get("content_limit", 0), errors),
        "bundle": bundle_files(request["bundle"]),
        "facts": facts(errors),
        "errors": errors,
    }


def observe_rows(rows: list, cluster: str, errors: list, ours: set) -> list:
    """Each resource as it is on this host, in the order asked; those that are absent are left out.

    `ours` are paths of files that pdctl keeps: a drop-in among them is no deviation.
    """
    asked: dict = {}
    for row in rows:
        asked.setdefault(row_id(row), row)
    found: dict = {}
    for kind, look in ALL_AT_ONCE.items():
        some = [row for row in asked.values() if row["kind"] == kind]
        if some:
            seen = _reading(kind + "s", errors, look, some, ours) or []
            found.update((row_id(row), row) for row in seen)
    for key, row in asked.items():
        if row["kind"] in ONE_BY_ONE:
            seen = _reading(key, errors, ONE_BY_ONE[row["kind"]], row, cluster)
            if seen is not None:
                found[key] = seen
    return [found[key] for key in asked if key in found]


def row_id(row: dict) -> str:
    """`kind:name`, the same as the controller's `Resource.id`."""
    return row["kind"] + ":" + (row["path"] if "path" in row else row["name"])


def row_of(key: str) -> dict:
    """The smallest row that asks about `key`."""
    kind, name = key.split(":", 1)
    return {"kind": kind, ("name" if kind in ("user", "package", "unit") else "path"): name}


def remembered(record) -> list:
    """What the record says pdctl put here, or was putting here when it was interrupted."""
    if not record:
        return []
    pending = [dict(row_of(entry["id"]), secret=entry.get("secret", False)) for entry in record["pending"]]
    return list(record["resources"]) + pending


def read_record(path: str, errors: list):
    """The record, or None when there is none or it cannot be used."""
    try:
        with open(path, encoding="utf-8") as handle:
            record = json.load(handle)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        errors.append(f"{path}: {error}")
        return None
    record.setdefault("resources", [])
    record.setdefault("pending", [])
    return record


def _reading(what: str, errors: list, look, *args):
    try:
        return look(*args)
    except OSError as error:
        errors.append(f"{what}: {error.strerror or error}{_at(error)}")
        return None


def _at(error: OSError) -> str:
    return f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, (str, bytes)) else ""
