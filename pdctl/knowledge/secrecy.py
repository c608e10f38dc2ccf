"""What secrets look like: the tokens of issuers, and the names that variables with secrets end in.

The form of a token is the one its issuer documents (Hugging Face, OpenAI, NVIDIA NGC, GitHub, GitLab, AWS).
"""

from __future__ import annotations

from typing import NamedTuple


class Token(NamedTuple):
    """Regular expressions: how a token begins, and what follows in a real one."""

    issuer: str
    beginning: str
    rest: str


TOKENS = (
    Token("Hugging Face", r"(?:hf|api_org)_", r"[A-Za-z0-9]{30,}"),
    Token("OpenAI", r"sk-", r"[A-Za-z0-9_-]{32,}"),
    Token("NVIDIA", r"nvapi-", r"[A-Za-z0-9_-]{32,}"),
    Token("GitHub", r"gh[pousr]_", r"[A-Za-z0-9]{36,}"),
    Token("GitHub", r"github_pat_", r"[A-Za-z0-9_]{36,}"),
    Token("GitLab", r"glpat-", r"[A-Za-z0-9_-]{20,}"),
    Token("AWS", r"AKIA", r"[A-Z0-9]{16}\b"),
)
# A real token, wherever it stands: enough to refuse a file.
REAL_TOKEN = "|".join(rf"\b{token.beginning}{token.rest}" for token in TOKENS)
# What begins like one, for places where hiding too much costs nothing.
LIKE_A_TOKEN = rf"\b(?:{'|'.join(token.beginning for token in TOKENS)})[A-Za-z0-9_-]{{6,}}"
# A whole word of this look is a Hugging Face token, or meant as one, whatever its length.
HUGGING_FACE_WORD = r"hf_\w{3,}"
# The ends of names that hold secrets by convention; counts of tokens are none.
NAMES = r"TOKEN(?!S)|PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?"
