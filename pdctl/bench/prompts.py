"""Seed -> prompts: the same seed gives the same prompts on every machine, and no two share a beginning."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Literal

Prompt = tuple[int, ...] | str
Kind = Literal["tokens", "words"]

# Made-up words, for servers that refuse token ids: "bada" to "tutu".
_SYLLABLES = tuple(map("".join, product("bdfgklmnprst", "aeiou")))
WORDS = tuple(map("".join, product(_SYLLABLES, repeat=2)))


@dataclass(frozen=True)
class Vocabulary:
    """What prompts are drawn from: token ids in [low, high), or `WORDS`, of an unknown number of tokens."""

    kind: Kind = "tokens"
    low: int = 0
    high: int = 0

    def __post_init__(self) -> None:
        if self.kind == "tokens" and not 0 <= self.low < self.high:
            raise ValueError(f"token ids need a range: [{self.low}, {self.high}) is empty")


def prompt(vocabulary: Vocabulary, length: int, seed: int, index: int, purpose: str = "load") -> Prompt:
    """One prompt; `purpose` keeps warm-up prompts apart, else they would fill the cache for the load."""
    # Only random() is promised to give the same numbers in every Python version.
    draw = Random(f"{purpose}/{seed}/{index}").random
    if vocabulary.kind == "words":
        return " ".join(WORDS[int(draw() * len(WORDS))] for _ in range(length))
    span = vocabulary.high - vocabulary.low
    return tuple(vocabulary.low + int(draw() * span) for _ in range(length))
