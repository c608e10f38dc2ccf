"""Topology x cluster.lock -> whether the lock is the spec's, and if not, what moved."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pdctl.desired.packages import packages
from pdctl.desired.runtime import CUDA_PINS, CUDA_RUNTIME
from pdctl.errors import Place, SpecError
from pdctl.knowledge.compatibility import MISSING_BOUNDS
from pdctl.knowledge.pairs import within
from pdctl.parts.cluster_lock import ClusterLock, lock_file, read_lock
from pdctl.parts.lock import Entry
from pdctl.parts.recipes import RECIPES, Recipe
from pdctl.spec.rules.suppress import suppressed
from pdctl.state import Package
from pdctl.topology.judge import Judgement
from pdctl.topology.model import Topology
from pdctl.topology.placement import uses_gpus

NEXT = "`pdctl lock` makes it anew; look at its diff and commit both"


@dataclass(frozen=True)
class Wanted:
    """What a lock of the spec is resolved from. `source` says the same in words, by name."""

    source: Mapping[str, str]
    packages: Mapping[str, Mapping[str, str]]  # Debian versions by system
    recipes: Mapping[tuple[str, str], Recipe]  # by environment and Python


class Moved(NamedTuple):
    """A version that is another one now; `then` or `now` is empty where there is none."""

    name: str
    then: str
    now: str

    def __str__(self) -> str:
        return f"{self.name}: {self.then or 'nothing'} -> {self.now or 'nothing'}"


def judged_with_lock(judgement: Judgement, spec: Path) -> Judgement:
    """The same, with the lock that lies beside the spec; one that is broken or stale adds errors."""
    path = lock_file(spec)
    if judgement.topology is None:
        return judgement
    if not os.path.lexists(path):  # a link to nowhere is a broken lock
        return _without_lock(judgement, path)
    try:
        lock = read_lock(path)
        errors = [*stale(lock, judgement.topology, path)]
    except SpecError as error:
        errors = [error]
    if errors:
        return replace(judgement, name=str(path), topology=None, errors=(*judgement.errors, *errors))
    return replace(judgement, topology=replace(judgement.topology, lock=lock))


def _without_lock(judgement: Judgement, path: Path) -> Judgement:
    topology = judgement.topology
    if topology is None or not topology.spec.offline or not uses_gpus(topology.spec):
        return judgement
    found = SpecError(
        "`offline` is true, and there is no lock: hosts resolve the wheels for GPUs at an index of their own",
        where=Place(str(path), 0, 0),
        hint="`pdctl lock` writes one: then they are collected here and sent to the hosts",
        rule="LOCK004",
        severity="warning",
    )
    reason = suppressed(topology.spec).get("LOCK004")
    if reason is not None:
        return replace(judgement, suppressed=(*judgement.suppressed, (found, reason)))
    return replace(judgement, warnings=(*judgement.warnings, found))


def stale(lock: ClusterLock, topology: Topology, path: Path) -> Iterator[SpecError]:
    wants, told = wanted(topology), False
    for moved in moves(lock, wants):
        told = True
        line = lock.lines.get(moved.name, 0)
        yield SpecError(
            f"the lock was made from something else: {moved}",
            where=Place(str(path), line, 1 if line else 0),
            hint=NEXT,
            rule="LOCK002",
        )
    for name, version, locked in () if told else _contradictions(lock, wants):
        yield SpecError(
            f"holds {name} {locked or 'not at all'}, though it was made for {name} {version}",
            where=Place(str(path)),
            hint=NEXT,
            rule="LOCK003",
        )


def moves(lock: ClusterLock, wants: Wanted) -> Iterator[Moved]:
    """What has changed since, the lock's side first."""
    for name in sorted({*lock.source, *wants.source}):
        then, now = lock.source.get(name, ""), wants.source.get(name, "")
        if then != now:
            yield Moved(name, then, now)


def changes(before: ClusterLock, after: ClusterLock) -> Iterator[Moved]:
    """Which wheels another lock holds in other versions, or under other hashes."""
    for name, python in sorted({*before.environments, *after.environments}):
        then, now = (_held(lock, name, python) for lock in (before, after))
        for package in sorted({*then, *now}):
            old, new = then.get(package), now.get(package)
            if old != new:
                rebuilt = old and new and old.version == new.version
                word = "other files" if rebuilt else new.version if new else ""
                yield Moved(f"{package} ({name} {python})", old.version if old else "", word)


def _held(lock: ClusterLock, name: str, python: str) -> dict[str, Entry]:
    found = lock.environments.get((name, python))
    return {entry.name: entry for entry in found.entries} if found else {}


def wanted(topology: Topology) -> Wanted:
    recipes = dict(_recipes(topology))
    debs = _packages(topology)
    engine = topology.spec.engine
    source = {"engine": f"{engine.kind} {engine.device}"}
    for (name, python), recipe in recipes.items():
        if name == CUDA_RUNTIME:
            source |= {pin: topology.pins[pin] for pin in (*CUDA_PINS, "python") if pin in topology.pins}
        else:
            source[f"{name} on {python}"] = _words(recipe)
    for system, versions in debs.items():
        source |= {f"{package} on {system}": version for package, version in versions.items()}
    return Wanted(source, debs, recipes)


def cuda_recipe(pins: Mapping[str, str]) -> Recipe:
    """`===`: a build for CPU under the same number does not count."""
    lines = [f"{name}==={pins[name]}" for name in CUDA_PINS if name in pins]
    return Recipe((*lines, *(bound for span, bound in MISSING_BOUNDS if within(pins["vllm"], span))))


def _recipes(topology: Topology) -> Iterator[tuple[tuple[str, str], Recipe]]:
    engine, pins = topology.spec.engine, topology.pins
    proxy = topology.hosts[topology.proxy.host].python
    yield ("proxy", proxy), RECIPES["proxy"]
    if engine.kind == "simulator":
        for python in sorted({topology.hosts[item.host].python for item in topology.instances}):
            yield ("simulator", python), RECIPES["simulator"]
    elif engine.device == "cpu":
        yield ("engine-cpu", pins["python"]), RECIPES["engine-cpu"]
    else:
        yield (CUDA_RUNTIME, pins["python"]), cuda_recipe(pins)


def _packages(topology: Topology) -> dict[str, dict[str, str]]:
    """Those with a version: what hosts need of any version is apt's own choice."""
    found: dict[str, dict[str, str]] = {}
    hosts = {host.name: host for host in topology.spec.hosts}
    for name in dict.fromkeys(item.host for item in topology.instances):
        for each in packages(topology, hosts[name]):
            if isinstance(each, Package) and each.version:
                found.setdefault(topology.hosts[name].os, {})[each.name] = each.version
    return found


def _words(recipe: Recipe) -> str:
    without = f" without {', '.join(recipe.without)}" if recipe.without else ""
    return ", ".join((*recipe.requires, *recipe.unresolved)) + without


def _contradictions(lock: ClusterLock, wants: Wanted) -> Iterator[tuple[str, str, str]]:
    """(name, version asked for, version that the lock holds): a lock may be edited, but not into another."""
    for (name, python), recipe in wants.recipes.items():
        entries = {each.name: each.version for each in _held(lock, name, python).values()}
        for line in (*recipe.requires, *recipe.unresolved):
            package, equal, version = line.replace("===", "==").partition("==")
            if equal and entries.get(package) != version:
                yield package, version, entries.get(package, "")
        if not entries:
            yield f"{name} for Python {python}", "its wheels", ""
    for system, debs in wants.packages.items():
        for package, version in debs.items():
            locked = lock.packages.get(system, {}).get(package, "")
            if locked != version:
                yield package, version, locked
