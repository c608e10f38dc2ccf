"""Digests of contents: plain for what may be known, slow and salted for secrets."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def content_digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def secret_digest(data: bytes, cluster: str) -> str:
    """A digest that cannot be searched quickly, so that a record may hold it: scrypt, salted by cluster."""
    salt = b"pdctl/" + cluster.encode()
    return "scrypt:" + hashlib.scrypt(data, salt=salt, n=2**14, r=8, p=1, dklen=24).hex()


def object_digest(value: Any) -> str:
    """Digest of a JSON-like value, independent of key order; 16 hex digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
