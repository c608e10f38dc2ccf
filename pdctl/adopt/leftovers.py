"""Engine beside what pdctl would start in its place -> `extra_args`, `env`, and what cannot be kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pdctl.adopt.deployment import Deployment
from pdctl.adopt.engine import Engine
from pdctl.adopt.note import Kind, Note
from pdctl.adopt.observed import HIDDEN
from pdctl.adopt.serving import section_of
from pdctl.adopt.settings import settings_notes
from pdctl.adopt.words import Command, Value, after_program, read_words
from pdctl.desired.engine import argv, environment
from pdctl.knowledge.adoption import (
    HANDLED_FLAGS,
    HOST_VARIABLES,
    LEFT_VARIABLES,
    NO_COUNTERPART,
    READ_VARIABLES,
    SECRET_FLAGS,
)
from pdctl.topology import Topology
from pdctl.topology.model import Instance, Role
from pdctl.topology.placement import POOL_FIELD

# Flags that have become fields, places and references, or have been told as left out.
SKIPPED = HANDLED_FLAGS | {*SECRET_FLAGS, *NO_COUNTERPART}


def leftovers(deployment: Deployment, topology: Topology) -> tuple[dict[str, dict[str, Any]], list[Note]]:
    """`extra_args` and `env` by pool, for a topology of the draft without them."""
    found: dict[str, dict[str, Any]] = {}
    notes: list[Note] = []
    for role in deployment.roles:
        pairs = _pairs(deployment, topology, role)
        words, more = _words(role, pairs, topology)
        notes += more
        variables, more = _variables(role, pairs, topology)
        notes += more + _added(role, pairs, topology)
        parts = {"extra_args": words, "env": variables}
        found[POOL_FIELD[role]] = {name: value for name, value in parts.items() if value}
    return found, notes


def flags_of(topology: Topology, instance: Instance) -> Command:
    """pdctl's own command line, read like any other."""
    return read_words(after_program(argv(topology, instance, "python")))


def _pairs(deployment: Deployment, topology: Topology, role: Role) -> list[tuple[Engine, Instance]]:
    """Each engine with the instance that takes its place."""
    places = {(i.host, i.ports.http): i for i in topology.of(role)}
    engines = deployment.of(role)
    return [(e, places[e.host, e.port]) for e in engines if (e.host, e.port) in places]


def _words(
    role: Role, pairs: Sequence[tuple[Engine, Instance]], topology: Topology
) -> tuple[list[str], list[Note]]:
    notes: list[Note] = []
    rest: list[dict[str, Value]] = []
    for engine, instance in pairs:
        ours = flags_of(topology, instance).flags
        kept: dict[str, Value] = {}
        for name, value in engine.command.flags.items():
            note = _no_place(role, engine, name, value)
            if note is not None:
                notes.append(note)
            elif name not in SKIPPED and ours.get(name) != value:
                kept[name] = value
        rest.append(kept)
    common, more = _common(role, pairs, rest, lambda name: f"--{name}")
    first = pairs[0][0].command.given if pairs else {}
    return [w for name, value in common.items() for w in _as_given(name, value, first)], notes + more


def _as_given(name: str, value: Value, given: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The words as they were written, if they were on the command line."""
    words = given.get(name, ())
    return words if words and words[0].startswith("-") else _spelled(name, value)


def _no_place(role: Role, engine: Engine, name: str, value: Value) -> Note | None:
    section, original = section_of(role), " ".join(engine.command.given.get(name, ()))
    if name in SECRET_FLAGS:
        return None
    if HIDDEN in json.dumps(value):
        return Note(
            Kind.SECRET, section, engine.label, "holds a secret, so it is not in the draft", f"--{name}"
        )
    if name in NO_COUNTERPART and value not in ("1", False):
        return Note(Kind.LEFT_OUT, section, engine.label, NO_COUNTERPART[name], original)
    if name == "uds":
        return Note(Kind.DIFFERENT, section, engine.label, "the proxy reaches engines by TCP", original)
    return None


def _spelled(name: str, value: Value) -> list[str]:
    """A flag as words of `extra_args`, each of its own."""
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, dict):
        return [f"--{name}", json.dumps(value, separators=(",", ":"))]
    if isinstance(value, tuple):
        return [f"--{name}", *value]
    return [f"--{name}={value}"] if value.startswith("-") else [f"--{name}", value]


def _variables(
    role: Role, pairs: Sequence[tuple[Engine, Instance]], topology: Topology
) -> tuple[dict[str, str], list[Note]]:
    notes: list[Note] = []
    rest: list[dict[str, str]] = []
    for engine, instance in pairs:
        ours = environment(topology, instance)
        kept = {}
        for name, value in engine.process.environment.items():
            if name in READ_VARIABLES or name.startswith(("LMCACHE_", "PDCTL_")) or ours.get(name) == value:
                continue
            if HIDDEN in value:
                text = "holds a secret, so it is not in the draft"
                notes.append(Note(Kind.SECRET, section_of(role), engine.label, text, name))
            elif name not in LEFT_VARIABLES:
                kept[name] = value
        rest.append(kept)
        notes += _left(role, engine, ours)
    common, more = _common(role, pairs, rest, str)
    return {name: str(value) for name, value in common.items()}, notes + more


def _left(role: Role, engine: Engine, ours: Mapping[str, str]) -> Iterator[Note]:
    """Variables that stay behind, one note for each reason; and those whose values were not read."""
    for reason in dict.fromkeys(LEFT_VARIABLES.values()):
        names = [
            f"{name}={value}"
            for name, value in engine.process.environment.items()
            if LEFT_VARIABLES.get(name) == reason and ours.get(name) != value
        ]
        if names:
            yield Note(Kind.LEFT_OUT, section_of(role), engine.label, reason, "; ".join(names))
    unread = [n for n in engine.process.rest if n not in HOST_VARIABLES and not n.startswith("LC_")]
    if unread and engine.process.unit:
        text = "its service has variables whose values were not read; add those that count to `env`"
        yield Note(Kind.LEFT_OUT, section_of(role), engine.label, text, ", ".join(unread))


def _common(
    role: Role, pairs: Sequence[tuple[Engine, Instance]], rest: Sequence[Mapping[str, Any]], shown: Any
) -> tuple[dict[str, Any], list[Note]]:
    """What all instances of the role have alike; of what differs, the first one's, and a note."""
    common: dict[str, Any] = {}
    notes: list[Note] = []
    for name in dict.fromkeys(name for kept in rest for name in kept):
        given = [kept.get(name) for kept in rest]
        first = next(value for value in given if value is not None)
        common[name] = first
        if any(value != first for value in given):
            told = "; ".join(
                f"{engine.label}: {'not given' if value is None else _text(value)}"
                for (engine, _), value in zip(pairs, given, strict=True)
            )
            text = f"differs between instances, and a role has one setting: {told}"
            notes.append(Note(Kind.CONTRADICTION, section_of(role), role.value, text, shown(name)))
    return common, notes


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _added(role: Role, pairs: Sequence[tuple[Engine, Instance]], topology: Topology) -> list[Note]:
    """Flags that pdctl gives and the running engines do not have."""
    added = dict.fromkeys(name for pair in pairs for name in _missing(*pair, topology))
    text = f"pdctl starts a {role.value} with these words too"
    notes = [Note(Kind.DIFFERENT, section_of(role), role.value, text, "; ".join(added))] if added else []
    for engine, instance in pairs:
        now = engine.command.text("host", "0.0.0.0")
        if now != instance.address and {now, instance.address} != {"127.0.0.1", "localhost"}:
            text = f"listens on {now} now, and on {instance.address} with pdctl"
            notes.append(Note(Kind.DIFFERENT, section_of(role), engine.label, text))
        notes += settings_notes(engine, instance, topology)
    return notes


def _missing(engine: Engine, instance: Instance, topology: Topology) -> Iterator[str]:
    ours, theirs = flags_of(topology, instance), engine.command.flags
    for name, value in ours.flags.items():
        if name in theirs or name in ("served-model-name", "host", "port", "tensor-parallel-size"):
            continue
        if name == "max-model-len" or (name == "kv-transfer-config" and not engine.transfer):
            continue
        yield " ".join(_spelled(name, value))
