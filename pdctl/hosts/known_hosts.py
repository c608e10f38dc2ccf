"""known_hosts files -> a verdict on the key a host shows; read strictly, never written."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pdctl.errors import UnreachableError


@dataclass(frozen=True)
class Entry:
    """One line of a known_hosts file that speaks of the host asked for."""

    file: str
    line: int
    type: str
    key: bytes
    revoked: bool = False

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Shown:
    """The key a host has shown; `name` is the host's in known_hosts, `learn` how to make the key known."""

    type: str
    key: bytes
    name: str
    learn: str
    where: str


def entries(files: Iterable[str], name: str) -> tuple[Entry, ...]:
    """The keys that `files` hold for `name`, which is `host` or `[host]:port`; missing files hold none."""
    return tuple(entry for file in files for entry in _of_file(Path(file), name.lower()))


def known_name(host: str, port: int) -> str:
    """A host as known_hosts names it (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def check(known: Sequence[Entry], shown: Shown) -> None:
    """Refuses a key that is not known for the host, has changed, or is revoked."""
    if entry := next((e for e in known if e.revoked and e.key == shown.key), None):
        raise UnreachableError(f"its host key is revoked by {entry.place}", where=shown.where)
    valid = [entry for entry in known if not entry.revoked]
    if any(entry.key == shown.key for entry in valid):
        return
    if valid:
        raise _changed(next((e for e in valid if e.type == shown.type), valid[0]), shown)
    raise UnreachableError(
        f"its host key ({shown.type} {fingerprint(shown.key)}) is not known",
        where=shown.where,
        hint=shown.learn,
    )


def _changed(entry: Entry, shown: Shown) -> UnreachableError:
    return UnreachableError(
        f"its host key has changed: {entry.place} says {entry.type} {fingerprint(entry.key)}, "
        f"the host shows {shown.type} {fingerprint(shown.key)}",
        where=shown.where,
        hint=f"another machine? if it was reinstalled: `ssh-keygen -f {entry.file} -R '{shown.name}'`",
    )


def fingerprint(key: bytes) -> str:
    """As `ssh-keygen -l` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def _of_file(file: Path, name: str) -> Iterator[Entry]:
    if not file.is_file():
        return
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        fields = line.split()
        marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
        # Lines of certificate authorities are passed over: host certificates are not supported.
        if len(fields) < 3 or fields[0].startswith("#") or marker not in ("", "@revoked"):
            continue
        if _speaks_of(fields[0], name) and (key := _decoded(fields[2])):
            yield Entry(str(file), number, fields[1], key, revoked=marker == "@revoked")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def _speaks_of(patterns: str, name: str) -> bool:
    if patterns.startswith("|1|"):
        return _hashed_equal(patterns, name)
    words = [pattern.lower() for pattern in patterns.split(",")]
    refused = any(_matches(name, word[1:]) for word in words if word.startswith("!"))
    return not refused and any(_matches(name, word) for word in words if not word.startswith("!"))


def _matches(name: str, pattern: str) -> bool:
    """`*` and `?` are wild; the brackets of `[host]:port` are not."""
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def _hashed_equal(hashed: str, name: str) -> bool:
    """`|1|salt|HMAC-SHA1(salt, name)`, both in base64."""
    parts = hashed.split("|")
    if len(parts) != 4:
        return False
    digest = hmac.new(_decoded(parts[2]), name.encode(), hashlib.sha1).digest()
    return hmac.compare_digest(digest, _decoded(parts[3]))
