"""A key file -> what can be known without its passphrase: its public half, and whether it is encrypted."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pdctl.errors import UnreachableError
from pdctl.hosts.openssh import Login
from pdctl.hosts.reach import Reach

_BEGIN = "-----BEGIN OPENSSH PRIVATE KEY-----"
_END = "-----END OPENSSH PRIVATE KEY-----"
_MAGIC = b"openssh-key-v1\0"


@dataclass(frozen=True)
class KeyFile:
    """A file named by IdentityFile. A lone public key is not `usable`: its private half is in an agent."""

    path: str
    public: bytes | None = None
    usable: bool = False
    encrypted: bool = False
    trouble: str = ""


def require_key(reach: Reach) -> None:
    """Raises when the key that the spec names cannot be read: ssh would pass it over and offer others."""
    file = key_file(reach.key) if reach.key else None
    if reach.key and (file is None or file.trouble):
        said = file.trouble if file else f"{reach.key}: No such file or directory"
        raise UnreachableError(
            f"`ssh.key` cannot be used: {said}",
            where=reach.name,
            hint="name the private key, or its public half if an agent holds it",
        )


def key_file(path: str) -> KeyFile | None:
    """None when neither it nor its public half is there, as for most of ssh's default names."""
    beside = Path(path + ".pub")
    public = _public_line(beside.read_text(errors="replace")) if beside.is_file() else None
    try:
        text = Path(path).read_text(errors="replace")
    except FileNotFoundError:
        return KeyFile(path, public) if public else None
    except OSError as error:
        return KeyFile(path, trouble=f"{path}: {error.strerror}")
    if not text.startswith("-----BEGIN"):
        return KeyFile(path, public=_public_line(text))
    if not text.startswith(_BEGIN):
        encrypted = "ENCRYPTED" in text
        return KeyFile(path, public, usable=not encrypted, encrypted=encrypted)
    cipher, inside = _openssh(text)
    return KeyFile(path, public or inside, usable=cipher == b"none", encrypted=cipher != b"none")


def refusal(login: Login, files: Sequence[KeyFile], offered: Sequence[str], where: str) -> UnreachableError:
    """Why nobody could log in, with the step most likely to help."""
    who = f"{login.user}@{login.host}"
    what = f"{who} accepts none of the keys offered ({', '.join(offered)})"
    reasons = [what if offered else f"there is no key to offer to {who}"]
    reasons += [file.trouble for file in files if file.trouble]
    locked = [file.path for file in files if file.encrypted]
    reasons += [f"key {path} is encrypted and no agent holds it" for path in locked]
    hint = (
        f"ssh-add {locked[0]}"
        if locked
        else f"ssh-copy-id -p {login.port} {who}, or set `ssh.user` and `ssh.key`"
    )
    return UnreachableError("; ".join(reasons), where=where, hint=hint)


def _public_line(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.split()[1], validate=True)
    except (IndexError, binascii.Error):
        return None


def _openssh(text: str) -> tuple[bytes, bytes | None]:
    """The cipher's name and the public key, which stands in clear (OpenSSH PROTOCOL.key)."""
    try:
        data = base64.b64decode(text.removeprefix(_BEGIN).split(_END)[0])
        cipher, rest = _string(data.removeprefix(_MAGIC))
        for _ in ("kdf name", "kdf options"):
            _, rest = _string(rest)
        public, _ = _string(rest[4:])  # after the number of keys, which is 1
    except (binascii.Error, struct.error):
        return b"none", None
    return cipher, public


def _string(data: bytes) -> tuple[bytes, bytes]:
    (length,) = struct.unpack_from(">I", data)
    return data[4 : 4 + length], data[4 + length :]
