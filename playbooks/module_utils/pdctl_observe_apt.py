"""Package rows -> what stands in their way: a version that no repository has, a dpkg that was cut off."""

from __future__ import annotations

import os
import time

from ansible.module_utils.pdctl_family import belongs
from ansible.module_utils.pdctl_observe_packages import dpkg_known
from ansible.module_utils.pdctl_offers import lacking, there_are
from ansible.module_utils.pdctl_rows import Row

# What is left to do for dpkg, and blocks every later run (dpkg(1), package states). Triggers are not in it:
# whoever runs dpkg next brings them about.
UNFINISHED = ("half-installed", "unpacked", "half-configured")
JOURNAL = "/var/lib/dpkg/updates"  # not empty: dpkg was cut off (dpkg(1), --configure)
LISTS = ("/var/lib/apt/lists", "/var/lib/apt/lists/partial")
PACKAGE = "package:"
SOURCES = "/etc/apt/sources.list.d/"


def apt_facts(wanted: list[Row], found: list[Row], extras: list[str]) -> Row:
    """`wanted` rows as asked, all of them `found` here or not; `extras` came along with what pdctl put here.

    Costs a look into apt's lists only where a pinned version is not installed.
    """
    asked = [row for row in wanted if row["kind"] == "package"]
    if not asked:
        return {}
    have = {row["name"]: row["version"] for row in found if row["kind"] == "package"}
    missing = [row for row in asked if row.get("version") not in (None, have.get(row["name"]))]
    missing = [] if sources_to_come(wanted, found) else missing
    versions = {row["name"]: row["version"] for row in missing}
    left = unfinished()
    ours = {extra[len(PACKAGE) :] for extra in extras if extra.startswith(PACKAGE)}
    return {
        "lacks": {name: [versions[name], there_are(some)] for name, some in lacking(missing).items()},
        "age_s": max(0.0, time.time() - max(map(_changed, LISTS))),
        "unfinished": left,
        "others": [n for n in left if n not in ours and not any(belongs(row, n) for row in asked)],
        "cut": dpkg_was_cut(),
    }


def sources_to_come(wanted: list[Row], found: list[Row]) -> bool:
    """Whether an apply adds or changes a repository: what it has, no list here tells yet."""
    there = {row["path"]: row.get("digest") for row in found if row["kind"] == "file"}
    sources = [row for row in wanted if row["kind"] == "file" and row["path"].startswith(SOURCES)]
    return any(row["digest"] != there.get(row["path"]) for row in sources)


def unfinished() -> dict[str, str]:
    """{package: state} of those that dpkg has begun and not ended."""
    return {name: state for name, (_, _, state) in dpkg_known([]).items() if state in UNFINISHED}


def dpkg_was_cut() -> bool:
    try:
        return any(name.isdigit() for name in os.listdir(JOURNAL))
    except FileNotFoundError:
        return False


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0
