"""Package rows -> what the repositories of this host have of them, in words where it is not enough."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from typing import NamedTuple

from ansible.module_utils.pdctl_rows import Row

SHOWN = 6  # versions
LISTED = " Packages"
INSTALLED = "/var/lib/dpkg/status"


class Offer(NamedTuple):
    """One version of a package, and the repository that has it as apt names it."""

    version: str
    origin: str


def offers(names: Iterable[str]) -> dict[str, list[Offer]]:
    """What `apt-cache madison` lists, the newest first: `name | version | repository` lines."""
    found: dict[str, list[Offer]] = {name: [] for name in names}
    for line in _said("madison", *found) if found else ():
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) == 3 and parts[2].endswith(LISTED):
            found.setdefault(parts[0], []).append(Offer(parts[1], parts[2][: -len(LISTED)]))
    return found


def lacking(rows: Iterable[Row]) -> dict[str, list[Offer]]:
    """{name: what there is instead} of rows whose version is in no repository; any will do without one."""
    asked = {row["name"]: row["version"] for row in rows if not row.get("deb")}
    known = offers(asked)
    return {
        name: known[name]
        for name, version in asked.items()
        if not any(version in (None, offer.version) for offer in known[name])
    }


def lack(name: str, version: str | None, there: list[Offer], host: str = "this host") -> str:
    """`nvidia-x 580.99 is in no repository of h1; there are: 580.95 (http://...)`"""
    what = f"{name} {version}" if version else name
    words = there_are(there)
    rest = f"; there are: {words}" if words else ", nor is any other version of it"
    return f"{what} is in no repository of {host}{rest}"


def there_are(offers: list[Offer]) -> str:
    """`580.95.05, 580.82.07 (http://...)`, the newest first; nothing where there is none."""
    by_origin: dict[str, list[str]] = {}
    for offer in offers[:SHOWN]:
        versions = by_origin.setdefault(offer.origin, [])
        versions += [offer.version] if offer.version not in versions else []
    words = ", ".join(f"{', '.join(versions)} ({origin})" for origin, versions in by_origin.items())
    return words + (f" and {len(offers) - SHOWN} more" if offers[SHOWN:] else "")


def candidate(policy: list[str]) -> str:
    """`1.10 (file:/srv/repo ./)` of what `apt-cache policy` prints: the version, and where it comes from."""
    lines = [line.strip() for line in policy]
    version = next((line.split()[1] for line in lines if line.startswith("Candidate: ")), "none")
    for line, after in zip(lines, lines[1:]):
        if line.removeprefix("*** ").split()[:1] == [version] and after[:1].isdigit():
            return f"{version} ({after.partition(' ')[2].removesuffix(LISTED)})"
    return version


def candidates(wanted: dict[str, str | None]) -> str:
    """Each package with the version wanted, and what apt would take, from where; only those that it would not
    take as wanted, where there are such."""
    taken = {name: candidate(_said("policy", name)) for name in wanted}
    others = [name for name, version in wanted.items() if version and taken[name].split(" ")[0] != version]
    words = [f"{n}: wanted {wanted[n] or 'any'}, apt would take {taken[n]}" for n in others or wanted]
    return "; ".join(words)


def vendors(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], set[str]]:
    """Who offers each (package, version): the `Origin` of its repository's Release file, else its address."""
    pairs = list(pairs)
    known = offers(name for name, _ in pairs)
    names = _release_origins()
    return {
        (name, version): {
            names.get(offer.origin) or offer.origin for offer in known[name] if offer.version == version
        }
        for name, version in pairs
    }


def _release_origins() -> dict[str, str]:
    """{repository: the `o=` of its Release file} of `apt-cache policy` without a package."""
    found, last = {}, ""
    for line in _said("policy"):
        begin = re.match(r"\s*-?\d+ (.+) Packages$", line)
        last = begin[1] if begin else last
        origin = re.match(r"\s+release (?:.*,)?o=([^,]+)", line)
        if origin and last:
            found[last] = origin[1]
    return found


def _said(*words: str) -> list[str]:
    """Lines of apt-cache; nothing where it is missing or knows no such package."""
    try:
        done = subprocess.run(
            ["apt-cache", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            check=False,
        )
    except FileNotFoundError:
        return []
    return done.stdout.decode("utf-8", "replace").splitlines()
