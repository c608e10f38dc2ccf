"""What the reader of a draft must know: a kind, whose it is, what, and the words it comes from."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

Section = tuple[str, ...]  # the part of the spec where the note stands as a comment


class Kind(StrEnum):
    """In the order of the report."""

    CONTRADICTION = "contradiction"  # two places of the running deployment disagree
    LEFT_OUT = "left out"  # found, and without a counterpart in a spec
    GUESS = "guess"  # not told by anything that was found
    DIFFERENT = "different"  # pdctl would do it in another way
    SECRET = "secret"  # a value that stays out of the draft


class Note(NamedTuple):
    """`where`: an instance, a role or a host; `original`: a flag, key or variable as it was written."""

    kind: Kind
    section: Section
    where: str
    text: str
    original: str = ""


PREFILLERS: Section = ("serving", "prefillers")
DECODERS: Section = ("serving", "decoders")
INSTANCES: Section = ("serving", "instances")
PROXY: Section = ("serving", "proxy")
LMCACHE: Section = ("serving", "lmcache")
SERVING: Section = ("serving",)
MODEL: Section = ("model",)
STACK: Section = ("stack",)
HOSTS: Section = ("hosts",)
SECRETS: Section = ("secrets",)
POOLS: dict[str, Section] = {"prefiller": PREFILLERS, "decoder": DECODERS, "server": INSTANCES}
