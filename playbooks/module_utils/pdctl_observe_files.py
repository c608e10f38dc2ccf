"""Users, directories and files -> rows as they are."""

from __future__ import annotations

import base64
import grp
import hashlib
import os
import pwd
import stat
from collections.abc import Callable, Sequence
from typing import Any

from ansible.module_utils.pdctl_rows import Row

CHUNK = 1 << 20
CONFIG = "/etc/pdctl/"


def observe_user(row: Row) -> Row | None:
    try:
        entry = pwd.getpwnam(row["name"])
    except KeyError:
        return None
    return {"kind": "user", "name": row["name"], "home": entry.pw_dir, "shell": entry.pw_shell}


def observe_directory(row: Row) -> Row | None:
    """Links are followed, since an administrator may have moved `/opt/pdctl` to a larger disk; but none where
    there is only text, which would be written, and removed, at a place that nobody asked for."""
    path: str = row["path"]
    if (path + "/").startswith(CONFIG) and os.path.islink(path):
        raise OSError(
            0, f"it is a link to {os.readlink(path)}, and none is followed here: put the folder itself there"
        )
    try:
        info = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISDIR(info.st_mode):
        return None
    return dict({"kind": "directory", "path": path}, **_ownership(info))


def observe_file(row: Row, cluster: str) -> Row | None:
    """A link or a directory at the path is seen, but its digest can equal no wanted one."""
    try:
        info = os.lstat(row["path"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    secret = bool(row.get("secret"))
    if stat.S_ISREG(info.st_mode):
        digest = file_digest(row["path"], cluster if secret else None)
    else:
        digest = "other:" + ("link" if stat.S_ISLNK(info.st_mode) else oct(stat.S_IFMT(info.st_mode)))
    return dict({"kind": "file", "path": row["path"], "digest": digest, "secret": secret}, **_ownership(info))


def file_digest(path: str, secret_of: str | None = None) -> str:
    """`sha256:...` of a file, or `scrypt:...` of a secret one of cluster `secret_of`."""
    with open(path, "rb") as handle:
        if secret_of is not None:
            return secret_digest(handle.read(), secret_of)
        sha = hashlib.sha256()
        while True:
            chunk = handle.read(CHUNK)
            if not chunk:
                return "sha256:" + sha.hexdigest()
            sha.update(chunk)


def secret_digest(data: bytes, cluster: str) -> str:
    """The same as `pdctl.state.digest.secret_digest`; a test holds them together."""
    salt = b"pdctl/" + cluster.encode()
    return "scrypt:" + hashlib.scrypt(data, salt=salt, n=2**14, r=8, p=1, dklen=24).hex()


def contents(wanted: list[Row], rows: list[Row], limit: int, notes: list[str]) -> dict[str, str]:
    """The bytes of small files that are not as wanted, for a text diff; never those of a secret."""
    digests = {row["path"]: row["digest"] for row in wanted if row["kind"] == "file" and not row["secret"]}
    found: dict[str, str] = {}
    for row in rows:
        if row["kind"] != "file" or row["secret"] or row["digest"] == digests.get(row["path"], row["digest"]):
            continue
        path: str = row["path"]
        try:
            if stat.S_ISREG(os.lstat(path).st_mode) and os.path.getsize(path) <= limit:
                with open(path, "rb") as handle:
                    found[path] = base64.b64encode(handle.read()).decode()
        except OSError as error:
            notes.append(f"{path}: {error.strerror}")
    return found


def _ownership(info: os.stat_result) -> dict[str, str]:
    return {
        "owner": _name(pwd.getpwuid, info.st_uid),
        "group": _name(grp.getgrgid, info.st_gid),
        "mode": f"{stat.S_IMODE(info.st_mode):04o}",
    }


def _name(database: Callable[[int], Sequence[Any]], number: int) -> str:
    try:
        return str(database(number)[0])
    except KeyError:
        return str(number)
