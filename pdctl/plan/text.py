"""What changes inside a file, line by line, with everything that could be a secret masked."""

from __future__ import annotations

import difflib
import functools
import re

from pdctl.knowledge.secrecy import LIKE_A_TOKEN, NAMES
from pdctl.state import File, Resource

# Names whose value is masked, and values that look like a token whatever their name.
SECRET_NAME = re.compile(rf"(?i)\b(\w*(?:{NAMES})\w*)(\s*[=:]\s*)(\S.*)")
SECRET_VALUE = re.compile(LIKE_A_TOKEN)
MASK = "***"
LONGEST = 400  # lines of diff per file


def file_diff(want: Resource | None, have: Resource | None, content: bytes | None) -> tuple[str, ...]:
    """Unified diff lines from what is on the host to what is wanted; empty for other kinds and binaries."""
    if not isinstance(want, File):
        return ()
    if want.secret:
        return tuple(f"{name}: {MASK} -> {MASK}" for name, _ in want.secret_env)
    if want.content is None or have is None or content is None:
        return ()
    try:
        before, after = content.decode(), want.content.decode()
    except UnicodeDecodeError:
        return ("binary file differs",)
    lines = list(
        difflib.unified_diff(
            before.splitlines(), after.splitlines(), "on the host", "wanted", lineterm="", n=2
        )
    )
    return tuple(mask(line) for line in lines[:LONGEST])


@functools.lru_cache(maxsize=4096)
def mask(line: str) -> str:
    """The line with values of secret-like names, and values that look like tokens, replaced.

    Most lines of a plan for many hosts stand in many files.
    """
    return SECRET_VALUE.sub(MASK, SECRET_NAME.sub(rf"\1\2{MASK}", line))
