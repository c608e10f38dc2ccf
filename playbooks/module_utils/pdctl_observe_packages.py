"""Package rows -> rows as dpkg knows them, in one query."""

from __future__ import annotations

import subprocess

from ansible.module_utils.pdctl_family import deviations
from ansible.module_utils.pdctl_rows import Row

FORMAT = "${Package}\\t${Version}\\t${db:Status-Want}\\t${db:Status-Status}\\n"


def observe_packages(rows: list[Row], _ours: set[str]) -> list[Row]:
    names = [] if any(row.get("family") for row in rows) else [row["name"] for row in rows]
    installed = dpkg_status(names)
    return [
        {
            "kind": "package",
            "name": row["name"],
            "version": version,
            "hold": want == "hold",
            "deviations": deviations(row, installed) if row.get("family") else [],
        }
        for row in rows
        for version, want in [installed.get(row["name"], ("", ""))]
        if version
    ]


def dpkg_status(names: list[str]) -> dict[str, tuple[str, str]]:
    """{name: (version, want)} of those fully installed; half-installed ones count as absent."""
    known = dpkg_known(names)
    return {name: (version, want) for name, (version, want, state) in known.items() if state == "installed"}


def dpkg_known(names: list[str]) -> dict[str, tuple[str, str, str]]:
    """{name: (version, want, state)} of those dpkg has any trace of. With no names: of everything.

    dpkg-query exits with 1 when a name is unknown, which is no error here.
    """
    try:
        done = subprocess.run(
            ["dpkg-query", "-W", "-f", FORMAT, *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError:
        return {}
    found: dict[str, tuple[str, str, str]] = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        name, version, want, state = line.split("\t")
        if state != "not-installed":
            found.setdefault(name, (version, want, state))
    return found
