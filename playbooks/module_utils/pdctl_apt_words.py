"""What apt and dpkg print when something fails -> what is wrong, with repository, key or disk, in words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

NOISE = ("W:", "N:", "debconf: delaying", "Errors were encountered")
# What gpgv says of a signature (GnuPG, doc/DETAILS, and apt's methods/gpgv.cc).
KEYS = {
    "EXPKEYSIG": "is signed with a key that has expired",
    "REVKEYSIG": "is signed with a key that its owner has withdrawn",
    "NO_PUBKEY": "is signed with a key that this host does not have",
    "EXPSIG": "has a signature that has expired",
    "BADSIG": "has a signature that does not match",
}
SIGNATURE = re.compile(rf"GPG error: (?P<of>\S+(?: \S+)*?): .*?\b(?P<code>{'|'.join(KEYS)}) (?P<key>.+)")
FETCH = re.compile(r"E: Failed to fetch (?P<url>\S+)\s+(?P<why>.*)")
NO_RELEASE = re.compile(
    r"E: The repository '(?P<of>[^']*)' (?P<what>does not have a Release file|is not signed)"
)
NO_SPACE = ("No space left on device", "don't have enough free space")
PLACE = re.compile(r"'(/[^']*)'|(?: in )(/\S+?)\.?$", re.MULTILINE)
USUAL = ("/var/cache/apt/archives", "/var/lib/dpkg", "/usr", "/boot", "/tmp")


def troubles(stderr: str) -> list[str]:
    """Each repository that `apt-get update` could not take in, with the reason."""
    found: dict[str, str] = {}
    for line in stderr.splitlines():
        for name, words in _trouble(line):
            found.setdefault(name, words)
    return [f"{name} {words}" for name, words in found.items()]


def full_disk(stderr: str) -> str:
    """`the disk of /opt is full (3 MB free)`, or nothing where that is not the reason."""
    if not any(sign in stderr for sign in NO_SPACE):
        return ""
    named = [one or two for one, two in PLACE.findall(stderr)]
    places = [place for place in map(_existing, named) if place != "/"] or [*map(_existing, USUAL)]
    place = min(places, key=_free)
    return f"the disk that {place} is on is full ({_free(place) // 1_000_000} MB free)"


def reasons(stdout: str, stderr: str) -> str:
    """apt's own `E:` lines, what dpkg and scripts said, what apt says of packages that do not go together."""
    lines = [line.strip() for line in _lines(stderr) if not line.startswith(NOISE)]
    found = [line for line in lines if line.startswith("E:")] or lines[-3:]
    if any("Sub-process" in line for line in found):
        found = lines[-6:]
    if any("broken packages" in line for line in found):
        found += [line.strip() for line in _lines(stdout) if " : " in line][:5]
    return " / ".join(found[:8] or _lines(stdout)[-3:])


def needed(stdout: str) -> dict[str, str | None]:
    """{package: version} that others need, of `x : Depends: y (= 1) but 2 is to be installed`; None where any
    of several versions would do."""
    rows = re.findall(r"(?:Depends|PreDepends): (\S+)(?: \((\S+) ([^)\s]+)\))?", stdout)
    return {name.partition(":")[0]: version if relation == "=" else None for name, relation, version in rows}


def site(address: str) -> str:
    """`http://host/ubuntu` of `http://host/ubuntu jammy InRelease` and of a file's address below it."""
    address = address.split(" ")[0]
    return re.split(r"/(?:\./|dists/|pool/)", address + "/")[0].rstrip("/")


def _trouble(line: str) -> Iterator[tuple[str, str]]:
    """The repository by its address as in sources.list, so that several lines on one are told once."""
    if found := SIGNATURE.search(line):
        key, _, owner = found["key"].partition(" ")
        who = f" ({owner})" if owner else ""
        mend = "install the key that the vendor gives now, as its keyring package or the `Signed-By` file"
        yield site(found["of"]), f"{KEYS[found['code']]}: {found['code']} {key}{who}; {mend}"
    elif found := FETCH.match(line):
        yield site(found["url"]), f"gives no {found['url'].rpartition('/')[2]}: {found['why'].strip()}"
    elif found := NO_RELEASE.match(line):
        yield site(found["of"]), found["what"]


def _existing(path: str) -> str:
    while path not in ("", "/") and not os.path.isdir(path):
        path = os.path.dirname(path)
    return path or "/"


def _free(path: str) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]
