"""What a rule is, and the pools that most of them go through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import NamedTuple

from pdctl.spec.finding import Finding, Path
from pdctl.spec.model import Cluster
from pdctl.spec.pins import pinned
from pdctl.spec.serving import Pool

POOLS = ("prefillers", "decoders", "instances")


class Rule(NamedTuple):
    """`check` looks at the sections in `reads` only, so it still runs when another one is broken."""

    check: Callable[[Cluster], Iterable[Finding]]
    reads: Set[str]


def pools(cluster: Cluster) -> Iterator[tuple[Path, Pool]]:
    """Every pool that is written, with its path."""
    for name in POOLS:
        pool: Pool | None = getattr(cluster.serving, name)
        if pool is not None:
            yield ("serving", name), pool


def pin(cluster: Cluster, name: str) -> str:
    """The version of one part of the stack; empty where there is none."""
    found = pinned(cluster).get(name)
    return found.version if found else ""


def guess(word: str, known: Iterable[str]) -> str:
    """`did you mean ...?` or what there is."""
    from difflib import get_close_matches  # needed only when something is wrong

    names = sorted(set(known))
    lower = {name.lower(): name for name in names}
    close = get_close_matches(word.lower(), lower, 1)
    if close:
        return f"did you mean `{lower[close[0]]}`?"
    few = ", ".join(names[:10])
    return f"there are: {few}" + (f" and {len(names) - 10} more" if len(names) > 10 else "")
