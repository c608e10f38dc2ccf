"""request -> answer: what one host holds of the resources asked about, read anew on every call."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ansible.module_utils.pdctl_namespace import unit_files
from ansible.module_utils.pdctl_observe_apt import apt_facts
from ansible.module_utils.pdctl_observe_deep import deep_facts
from ansible.module_utils.pdctl_observe_facts import bundle_files, facts
from ansible.module_utils.pdctl_observe_files import contents, observe_directory, observe_file, observe_user
from ansible.module_utils.pdctl_observe_foreign import foreign
from ansible.module_utils.pdctl_observe_generations import kept_state
from ansible.module_utils.pdctl_observe_packages import observe_packages
from ansible.module_utils.pdctl_observe_peermem import peermem_facts
from ansible.module_utils.pdctl_observe_ready import ready_facts
from ansible.module_utils.pdctl_observe_stack import stack_facts
from ansible.module_utils.pdctl_observe_units import observe_units
from ansible.module_utils.pdctl_observe_venvs import observe_venv
from ansible.module_utils.pdctl_observe_weights import observe_weights
from ansible.module_utils.pdctl_recorded import read_record, remembered
from ansible.module_utils.pdctl_rows import Row, Rows, row_id

ONE_BY_ONE: dict[str, Callable[[Row, str], Row | None]] = {
    "user": lambda row, cluster: observe_user(row),
    "directory": lambda row, cluster: observe_directory(row),
    "file": observe_file,
    "venv": lambda row, cluster: observe_venv(row),
    "weights": lambda row, cluster: observe_weights(row),
}
ALL_AT_ONCE: dict[str, Callable[[list[Row], set[str]], list[Row]]] = {
    "package": observe_packages,
    "unit": observe_units,
}


def observe(request: Row) -> Row:
    """The probe's whole answer. `errors`: what of the resources could not be read; `notes`: what else."""
    errors: list[str] = []
    notes: list[str] = []
    record = read_record(request["record"], errors)
    wanted = list(request.get("resources", []))
    asked = wanted + remembered(record)
    ours = {row["path"] for row in asked if row["kind"] == "file"}
    rows = observe_rows(asked, request["cluster"], errors, ours)
    known = facts(notes)
    known["apt"] = apt_facts(wanted, rows, (record or {}).get("extras", []))
    if known["driver"] or any(row.get("family") for row in asked):
        known["stack"] = stack_facts()
    known["rdma"] = peermem_facts(asked)
    if request.get("deep"):
        known["deep"] = deep_facts(request["deep"])
    known["ready"] = ready_facts([row["path"] for row in (*known["gpus"], *known["nics"])])
    units = [row["name"] for row in rows if row["kind"] == "unit"]
    return {
        "resources": rows,
        "record": record,
        "contents": contents(wanted, rows, request.get("content_limit", 0), notes),
        "bundle": bundle_files(request["bundle"]),
        "facts": known,
        "foreign": foreign(request.get("claims") or {}, request["cluster"], units, known["gpus"], notes),
        "strays": strays(asked, request["cluster"]),
        "kept": _reading("generations", errors, kept_state, request["record"]),
        "errors": errors,
        "notes": notes,
    }


def observe_rows(rows: list[Row], cluster: str, errors: list[str], ours: set[str]) -> list[Row]:
    """Each resource as it is on this host, in the order asked; those that are absent are left out.

    `ours` are paths of files that pdctl keeps: a drop-in among them is no deviation.
    """
    asked: Rows = {}
    for row in rows:
        asked.setdefault(row_id(row), row)
    found: Rows = {}
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


def strays(asked: list[Row], cluster: str) -> list[str]:
    """Units of this cluster that are neither wanted nor recorded."""
    known = {row["name"] for row in asked if row["kind"] == "unit"}
    known |= {os.path.basename(row["path"]) for row in asked if row["kind"] == "file"}
    return [name for name in unit_files(cluster) if name not in known]


def _reading(what: str, errors: list[str], look: Callable[..., Any], *args: Any) -> Any:
    try:
        return look(*args)
    except OSError as error:
        errors.append(f"{what}: {error.strerror or error}{_at(error)}")
        return None


def _at(error: OSError) -> str:
    return f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, (str, bytes)) else ""
