"""How Debian orders versions of a package (deb-version(7))."""

from __future__ import annotations

import re
from typing import Any


def is_older(one: str, two: str) -> bool:
    """Whether apt would call it a downgrade to go from `two` to `one`."""
    return _key(one) < _key(two)


def _key(version: str) -> tuple[int, Any, Any]:
    epoch, _, rest = version.rpartition(":")
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return int(epoch or 0), _parts(upstream), _parts(revision or "0")


def _parts(text: str) -> list[Any]:
    """Texts and numbers in turn, beginning with a text."""
    found: list[Any] = []
    for word, digits in re.findall(r"(\D*)(\d*)", text):
        found += [[*map(_rank, word), 0], int(digits or 0)]
    return found


def _rank(letter: str) -> int:
    """A tilde comes before the end of a text, which comes before letters, which come before all else."""
    return -1 if letter == "~" else ord(letter) if letter.isalpha() else ord(letter) + 256
