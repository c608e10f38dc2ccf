"""Package rows of a request -> installed, with the record told what is ours; and what can be told before."""

from __future__ import annotations

from ansible.module_utils.pdctl_apt import Apt
from ansible.module_utils.pdctl_observe_packages import dpkg_known
from ansible.module_utils.pdctl_packages import Ours, must_be_offered, needs_install, put_packages
from ansible.module_utils.pdctl_record import PACKAGE, Record
from ansible.module_utils.pdctl_rows import Row, Rows, row_id

SOURCES = "/etc/apt/sources.list"  # and the folder sources.list.d beside it


def foresee(rows: list[Row], files: list[Row], have: Rows, apt: Apt) -> None:
    """Raises, before anything is changed here, where a version is in no repository of this host.

    Sources that are still to be written say nothing yet.
    """
    if rows and not brings_sources(files):
        must_be_offered(apt, [row for row in rows if needs_install(row, have.get(row["name"]))])


def brings_sources(files: list[Row]) -> bool:
    return any(row["path"].startswith(SOURCES) for row in files)


def install(rows: list[Row], have: Rows, request: Row, record: Record, apt: Apt) -> None:
    recorded = [row for row in record.rows.values() if row["kind"] == "package"]
    held = {row["name"] for row in recorded if row["hold"]}
    there = [row for row in rows if row["name"] in have]
    goes_back = bool(there) and all(_is_recorded(row, record) for row in there)
    consent = bool(request.get("allow_downgrades")) or goes_back
    try:
        put_packages(
            apt,
            rows,
            have,
            request["bundle"],
            Ours(held, packages_of(record)),
            consent,
            record.remember_packages,
        )
    finally:
        record.forget_packages(dpkg_known([]).keys())


def packages_of(record: Record) -> set[str]:
    """All that pdctl has put here, or was about to."""
    keys = [*record.all(), *record.extras]
    return {key[len(PACKAGE) :] for key in keys if key.startswith(PACKAGE)}


def _is_recorded(row: Row, record: Record) -> bool:
    """Whether pdctl left it at this very version: to go back there only undoes what somebody else did."""
    return bool(record.rows.get(row_id(row), {}).get("version") == row["version"])
