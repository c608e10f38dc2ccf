"""Rules on the stack's version pins."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.knowledge.stacks import STACKS
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules.rule import guess


def the_base_is_shipped(cluster: Cluster) -> Iterator[Finding]:
    base = cluster.stack.base
    if base is not None and base not in STACKS:
        yield Finding(("stack", "base"), f"no shipped stack is named `{base}`", guess(base, STACKS))
