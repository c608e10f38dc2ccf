"""Rules on versions that do not go together, from the tables of what is known."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.knowledge.compatibility import Status
from pdctl.knowledge.pairs import Verdict, judged_pairs, pair_status, release_status
from pdctl.knowledge.stacks import STACKS
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.pins import Pinned, pinned

# Told by rules of their own: driver.py.
ELSEWHERE = {("driver", "fabricmanager")}
# What follows from other pairs: torch is vLLM's, and a NIXL wheel brings its own UCX.
IMPLIED = {("lmcache", "torch")}
DRIVERS = {("vllm", "driver"), ("cuda", "driver")}


def versions_go_together(cluster: Cluster) -> Iterator[Finding]:
    """Two versions of which the spec names at least one; a shipped set alone is told by `explain`."""
    if cluster.engine.kind != "vllm" or cluster.engine.device != "cuda":
        return  # the simulator plays any version, the CPU engine has one locked set
    pins = pinned(cluster)
    told: set[str] = set()
    for one, two in judged_pairs():
        if {(one, two)} & (ELSEWHERE | IMPLIED) or not _count(cluster, pins, one, two):
            continue
        verdict = pair_status(one, pins[one].version, two, pins[two].version)
        if _is_unlisted(one, pins[one]) or _is_unlisted(two, pins[two]):
            continue  # told once for the version itself
        if (one, two) in DRIVERS and "driver" in told:
            continue
        if found := _finding(pins, one, two, verdict):
            told.add(two)
            yield found


def releases_are_known(cluster: Cluster) -> Iterator[Finding]:
    if cluster.engine.kind != "vllm" or cluster.engine.device != "cuda":
        return
    for name, pin in pinned(cluster).items():
        verdict = release_status(name, pin.version)
        if not pin.own or not _is_used(cluster, name) or verdict.status is Status.RESOLVES:
            continue
        rule = "PIN004" if verdict.strict else "PIN007"
        what = "cannot be installed" if verdict.strict else "is not known to work"
        yield Finding(rule, ("stack", name), f"{name} {pin.version} {what}: {verdict.reason}", _hint(verdict))


def _count(cluster: Cluster, pins: dict[str, Pinned], one: str, two: str) -> bool:
    """Whether both are there and in use, and the spec itself brings them together."""
    if not (_is_used(cluster, one) and _is_used(cluster, two)) or one not in pins or two not in pins:
        return False
    shipped = STACKS.get(cluster.stack.base or "", {})
    return any(pins[name].own and pins[name].version != shipped.get(name) for name in (one, two))


def _is_used(cluster: Cluster, name: str) -> bool:
    """Without LMCache's transfer nothing loads its modules, and without a transfer nothing loads NIXL's."""
    serving = cluster.serving
    if name == "lmcache":
        return serving.mode == "disaggregated" and serving.connector == "lmcache"
    return name != "nixl" or serving.mode == "disaggregated"


def _is_unlisted(name: str, pin: Pinned) -> bool:
    return release_status(name, pin.version).status is not Status.RESOLVES


def _finding(pins: dict[str, Pinned], one: str, two: str, verdict: Verdict) -> Finding | None:
    rule = _rule(one, two, verdict)
    if rule is None:
        return None
    first, second = pins[one], pins[two]
    at = two if second.own else one
    verb = "is not known to go with" if verdict.status is Status.UNKNOWN else "does not go with"
    return Finding(
        rule,
        ("stack", at),
        f"{one} {first.version} ({first.origin}) {verb} {two} {second.version} ({second.origin}):"
        f" {verdict.reason}",
        _hint(verdict),
    )


def _rule(one: str, two: str, verdict: Verdict) -> str | None:
    if verdict.status is Status.UNKNOWN:
        return "PIN006"
    if verdict.status is not Status.KNOWN_BAD:
        return None
    if (one, two) in DRIVERS:
        return "DRIVER003"
    return "PIN004" if verdict.strict else "PIN005"


def _hint(verdict: Verdict) -> str:
    if verdict.nearest is None:
        return "`pdctl explain stack` lists sets that go together"
    name, version = verdict.nearest
    return f'nearest that fits: {name} "{version}"; `pdctl explain stack` lists whole sets'
