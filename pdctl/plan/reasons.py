"""Plan x specs -> why: for each thing that is to be done, the lines of the spec that ask for it.

The spec of the last apply and the present one differ in some fields. Which of them a resource follows from is
found by rendering: the old spec with one field changed, and which resources then are others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from pdctl.errors import ErrorGroup, SpecError
from pdctl.plan.belonging import instance_of_key
from pdctl.plan.between import Between, Group, groups_of
from pdctl.plan.drift import INTERRUPTED
from pdctl.plan.grounds import asked_at
from pdctl.plan.model import Change, Plan
from pdctl.plan.restarts import unit_file
from pdctl.plan.wording import worded
from pdctl.spec.changes import Field, changed_fields
from pdctl.spec.load import Reading, examine
from pdctl.spec.model import Cluster
from pdctl.state import Key, State, Unit
from pdctl.topology.model import Topology

# On more hosts a single changed field is taken for the cause of all changes, without rendering the old spec.
MOST_HOSTS = 200
DRIFTED = "changed outside pdctl since the last apply"


@dataclass(frozen=True)
class Reason:
    """`text` says it all; `field` is the key path in the spec if there is one, `where` its line."""

    text: str
    field: str = ""
    where: str = ""


@dataclass(frozen=True)
class Ground:
    """What reasons are found from. `earlier` is the text of the spec that was applied last, if it is known;
    `of_hosts` the one that each host was last brought to, which is an older one where an apply left it out;
    `applied_by` the version of pdctl that last worked on each host; `relocked` says that cluster.lock is
    another than it was then."""

    topology: Topology
    reading: Reading
    desired: State
    secret_digest: str = ""
    earlier: str | None = None
    of_hosts: Mapping[str, str] | None = None
    applied_by: Mapping[str, str] | None = None
    version: str = ""
    relocked: bool = False

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Where each host stands in the spec's list."""
        return {host.name: number for number, host in enumerate(self.reading.cluster.hosts)}


@dataclass(frozen=True)
class Reasons:
    """`by_key` for every change and restart; `fields` are all changed fields of the spec, `idle` those of
    them that no host is told of."""

    by_key: Mapping[Key, tuple[Reason, ...]]
    fields: tuple[Reason, ...] = ()
    idle: tuple[Reason, ...] = ()


# What exact versions can be asked of, and what is started from that.
LOCKED = ("venv", "package", "unit", "file")


def find_reasons(plan: Plan, ground: Ground) -> Reasons:
    """Why each change and each restart of the plan is there."""
    before = _spec(ground.earlier, ground.reading)
    fields = changed_fields(before, ground.reading.cluster) if before else []
    found = _attributed(before, ground, plan, fields) if before else {}
    named = {reason.field for reasons in found.values() for reason in reasons}
    told = [_reason(field, ground.reading) for field in fields]
    idle = tuple(reason for reason in told if reason.field not in named)
    older = _left_behind(plan, ground, found)
    found |= older
    told += [r for reasons in older.values() for r in reasons if r not in told]
    unfinished = {drift.key for drift in plan.drift if drift.unproven or drift.what == (INTERRUPTED,)}
    by_key = {
        change.key: found.get(change.key) or _other(change, unfinished, ground, before)
        for change in plan.changes
    }
    by_key |= _through_inputs(plan, by_key, found)
    by_key |= _restarts(plan, ground, by_key)
    return Reasons(by_key, tuple(dict.fromkeys(told)), idle)


def _spec(text: str | None, reading: Reading) -> Cluster | None:
    """None when there is none, or when this pdctl would refuse it; the present one is not read twice."""
    if text is None:
        return None
    if text == reading.text.source.text:
        return reading.cluster
    try:
        return examine(text, "the last applied spec").cluster
    except (ErrorGroup, SpecError):
        return None


def _left_behind(
    plan: Plan, ground: Ground, found: Mapping[Key, tuple[Reason, ...]]
) -> dict[Key, tuple[Reason, ...]]:
    """Reasons of what an apply of a part, or one that left hosts out, has not come to."""
    rest = {change.key for change in plan.changes if change.key not in found and not change.drift}
    texts: dict[str, set[Key]] = {}
    for key in rest:
        text = (ground.of_hosts or {}).get(key.host, ground.earlier)
        if text and text != ground.earlier:
            texts.setdefault(text, set()).add(key)
    older: dict[Key, tuple[Reason, ...]] = {}
    for text, keys in texts.items():
        before = _spec(text, ground.reading)
        if before:
            some = _attributed(before, ground, plan, changed_fields(before, ground.reading.cluster))
            older |= {key: some[key] for key in keys & some.keys()}
    return older


def _attributed(
    before: Cluster, ground: Ground, plan: Plan, fields: Sequence[Field]
) -> dict[Key, tuple[Reason, ...]]:
    seen = [field for field in fields if field.seen]
    if not seen:
        return {}
    if len(seen) == 1 and len(ground.reading.cluster.hosts) > MOST_HOSTS:
        only = (_reason(seen[0], ground.reading),)
        return {change.key: only for change in plan.changes if not change.drift}
    now, files = ground.reading.cluster, ground.topology.files
    between = Between(before, now, ground.desired, ground.secret_digest, files)
    groups = groups_of(between, seen)
    found: dict[Key, list[Group]] = {}
    for key in between.differing():
        found[key] = []
    for group in groups:
        for key in between.touched_by(group, alone=len(groups) == 1):
            if key in found:
                found[key].append(group)
    missing = [key for key, some in found.items() if not some]
    for group in groups if missing else ():
        needed = between.needing(group, seen)
        for key in missing:
            if key in needed:
                found[key].append(group)
    return {key: tuple(_reasons(some or groups, ground.reading)) for key, some in found.items()}


def _reasons(groups: Sequence[Group], reading: Reading) -> Iterator[Reason]:
    for group in groups:
        if group.too_many:
            yield Reason(
                f"one of {len(group.fields)} fields of the spec that changed", where=reading.text.source.name
            )
        else:
            yield from (_reason(field, reading) for field in group.fields)


def _reason(field: Field, reading: Reading) -> Reason:
    name, place, text = worded(field, reading)
    return Reason(text, name, place)


def _other(
    change: Change, unfinished: Set[Key], ground: Ground, before: Cluster | None
) -> tuple[Reason, ...]:
    """Why, where no field of the spec has changed."""
    if change.drift:
        return (Reason(DRIFTED),)
    if change.key in unfinished:
        return (Reason(INTERRUPTED),)
    if ground.relocked and change.key.id.split(":")[0] in LOCKED:
        name = PurePath(ground.reading.text.source.name).with_suffix(".lock").name
        return (Reason(f"{name} changed", where=name),)
    applied_by = (ground.applied_by or {}).get(change.key.host, "")
    if before and applied_by and applied_by != ground.version:
        return (Reason(f"pdctl {applied_by} -> {ground.version} renders it otherwise"),)
    field, where = asked_at(ground.topology, ground.reading, change.key, ground.positions)
    return (Reason(field, field, where),)


def _through_inputs(
    plan: Plan, by_key: Mapping[Key, tuple[Reason, ...]], found: Mapping[Key, tuple[Reason, ...]]
) -> dict[Key, tuple[Reason, ...]]:
    """A unit that no field asks to change does so for what it reads: rotated secrets, another runtime."""
    through: dict[Key, tuple[Reason, ...]] = {}
    for change in plan.changes:
        unit = change.desired
        if isinstance(unit, Unit) and change.observed and change.key not in found and not change.drift:
            inputs = [Key(change.key.host, name) for name in unit.inputs]
            reasons = tuple(dict.fromkeys(r for key in inputs for r in by_key.get(key, ())))
            for key in (change.key, unit_file(change.key, unit)) if reasons else ():
                if key in by_key and key not in found:
                    through[key] = reasons
    return through


def _of_reboot(plan: Plan, host: str, by_key: Mapping[Key, tuple[Reason, ...]]) -> tuple[Reason, ...]:
    """Why its host reboots: for a field of the spec, or for what is on disk already."""
    found = dict.fromkeys(
        reason
        for need in plan.reboots.of(host)
        for reason in by_key.get(Key(host, f"package:{need.package}"), (Reason(need.words),))
    )
    return tuple(found)


def _restarts(
    plan: Plan, ground: Ground, by_key: Mapping[Key, tuple[Reason, ...]]
) -> dict[Key, tuple[Reason, ...]]:
    """A process restarts for what it is started from; a prefiller with stale peers for what restarts them."""
    found: dict[Key, tuple[Reason, ...]] = {}
    coupled: list[Key] = []
    for restart in plan.restarts:
        key = Key(restart.host, f"unit:{restart.unit}")
        if key in by_key:
            found[key] = by_key[key]
        elif restart.host in plan.reboots.hosts:
            found[key] = _of_reboot(plan, restart.host, by_key)
        elif restart.hidden:
            coupled.append(key)
        else:
            found[key] = (Reason(DRIFTED),)
    decoders = dict.fromkeys(
        reason
        for key, reasons in found.items()
        if instance_of_key(ground.topology.cluster, key).startswith("decoder-")
        for reason in reasons
    )
    return found | dict.fromkeys(coupled, tuple(decoders))
