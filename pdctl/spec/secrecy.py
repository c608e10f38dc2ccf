"""Text from the user's file -> text that may be shown: secrets masked, clipped, and visible on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pdctl.knowledge.secrecy import HUGGING_FACE_WORD, REAL_TOKEN, TOKENS
from pdctl.spec.finding import Problem
from pdctl.spec.source import Source

LONGEST_SHOWN = 60


def shown(text: str) -> str:
    """`text` in backticks, for an error message."""
    if not text:
        return '`""`'
    clipped = mask(text)
    clipped = clipped if len(clipped) <= LONGEST_SHOWN else f"{clipped[: LONGEST_SHOWN - 3]}..."
    return f"`{clipped if clipped.isprintable() else ascii(clipped)[1:-1]}`"


def mask(text: str) -> str:
    """`text` with every token replaced."""
    found = re.sub(REAL_TOKEN, "***", text)
    return re.sub(rf"(?<!\w){HUGGING_FACE_WORD}(?!\w)", "***", found)


def leaks(source: Source) -> Iterator[Problem]:
    """Tokens anywhere in the file, comments included: it is committed and shared."""
    if not re.search(REAL_TOKEN, source.text):
        return
    for issuer, beginning, rest in TOKENS:
        for match in re.finditer(rf"\b{beginning}{rest}", source.text):
            yield Problem(
                "SECRET001",
                match.start(),
                (),
                f"this looks like a token of {issuer}; secrets never stand in this file",
                "name it under `secrets` as {from_env: NAME} or {from_file: PATH}, and revoke this one",
            )
