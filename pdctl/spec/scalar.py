"""The text of a plain YAML scalar -> its value, by the core schema of YAML 1.2 (10.3.2)."""

from __future__ import annotations

import re

Scalar = str | int | float | bool | None

WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + name: float(sign + "inf") for sign in ("", "+", "-") for name in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
NUMERIC = frozenset("+-.0123456789")
INT = re.compile(r"[-+]?[0-9]+")
LONGEST_INT = (
    20  # with its sign; more than any field takes stays text: Python refuses to convert the longest ones
)
OTHER_INT = re.compile(r"0o[0-7]{1,18}|0x[0-9a-fA-F]{1,16}")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# YAML 1.1 readers take it as octal, 1.2 ones as decimal.
LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")


def resolve(text: str) -> Scalar:
    """What a plain (unquoted) scalar means; `22:22`, `yes`, `1_000` and dates are text."""
    if text[:1] not in NUMERIC or text in WORDS:
        return WORDS.get(text, text)
    if INT.fullmatch(text):
        return int(text) if len(text) <= LONGEST_INT else text
    if OTHER_INT.fullmatch(text):
        return int(text, 0)
    if len(text) <= 64 and FLOAT.fullmatch(text):
        return float(text)
    return text
