"""Package rows -> rows as dpkg knows them, in one query."""

from __future__ import annotations

import subprocess

FORMAT = "${Package}\\t${Version}\\t${db:Status-Want}\\t${db:Status-Status}\\n"


def observe_packages(rows: list, _ours: set) -> list:
    installed = dpkg_status([row["name"] for row in rows])
    return [
        {"kind": "package", "name": row["name"], "version": version, "hold": want == "hold"}
        for row in rows
        for version, want in [installed.get(row["name"], ("", ""))]
        if version
    ]


def dpkg_status(names: list) -> dict:
    """{name: (version, want)} of those fully installed; half-installed ones count as absent."""
    known = dpkg_known(names)
    return {name: (version, want) for name, (version, want, state) in known.items() if state == "installed"}


def dpkg_known(names: list) -> dict:
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
    found: dict = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        name, version, want, state = line.split("\t")
        if state != "not-installed":
            found.setdefault(name, (version, want, state))
    return found
