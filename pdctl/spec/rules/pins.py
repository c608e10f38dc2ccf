"""Rules on the stack's version pins."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.knowledge.stacks import STACKS
from pdctl.knowledge.versions import DEFAULT_PINS
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules.rule import guess


def the_base_is_shipped(cluster: Cluster) -> Iterator[Finding]:
    base = cluster.stack.base
    if base is not None and base not in STACKS:
        yield Finding("PIN001", ("stack", "base"), f"no shipped stack is named `{base}`", guess(base, STACKS))


def the_cpu_engine_has_one_set(cluster: Cluster) -> Iterator[Finding]:
    """Its wheels are locked with hashes, so a pin can only repeat what the lock holds."""
    if cluster.engine.kind != "vllm" or cluster.engine.device != "cpu":
        return
    locked = DEFAULT_PINS[("vllm", "cpu")]
    if cluster.stack.base is not None:
        yield Finding(
            "PIN002",
            ("stack", "base"),
            f"the stack `{cluster.stack.base}` is for GPUs; the CPU engine has one locked set",
            "remove it",
        )
    for name, version in locked.items():
        asked = getattr(cluster.stack, name)
        if asked not in (None, version):
            yield Finding(
                "PIN003",
                ("stack", name),
                f"the CPU engine is locked to {name} {version}, not {asked}",
                "remove the pin",
            )
