"""Text from the user's file -> text that may be shown: secrets masked, clipped, and visible on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pdctl.spec.finding import Problem
from pdctl.spec.source import Source

LONGEST_SHOWN = 60

# What issuers document as the look of their tokens.
TOKENS = {
    "Hugging Face": r"\b(?:hf|api_org)_[A-Za-z0-9]{30,}",
    "OpenAI": r"\bsk-[A-Za-z0-9_-]{32,}",
    "NVIDIA": r"\bnvapi-[A-Za-z0-9_-]{32,}",
    "GitHub": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,})",
    "AWS": r"\bAKIA[A-Z0-9]{16}\b",
}
ANY_TOKEN = "|".join(TOKENS.values())
# A whole word of this look is a Hugging Face token, or meant as one, whatever its length.
HF_WORD = r"hf_\w{3,}"


def shown(text: str) -> str:
    """`text` in backticks, for an error message."""
    if not text:
        return '`""`'
    clipped = mask(text)
    clipped = clipped if len(clipped) <= LONGEST_SHOWN else f"{clipped[: LONGEST_SHOWN - 3]}..."
    return f"`{clipped if clipped.isprintable() else ascii(clipped)[1:-1]}`"


def mask(text: str) -> str:
    """`text` with every token replaced."""
    found = re.sub(ANY_TOKEN, "***", text)
    return re.sub(rf"(?<!\w){HF_WORD}(?!\w)", "***", found)


def leaks(source: Source) -> Iterator[Problem]:
    """Tokens anywhere in the file, comments included: it is committed and shared."""
    if not re.search(ANY_TOKEN, source.text):
        return
    for issuer, pattern in TOKENS.items():
        for match in re.finditer(pattern, source.text):
            yield Problem(
                match.start(),
                (),
                f"this looks like a token of {issuer}; secrets never stand in this file",
                "name it under `secrets` as {from_env: NAME} or {from_file: PATH}, and revoke this one",
            )
