"""Processes of all hosts -> Deployment: the engines of one model, each with its role, and their proxy."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pdctl.adopt.engine import Engine, read_engine
from pdctl.adopt.front import Front, read_front
from pdctl.adopt.note import HOSTS, POOLS, PROXY, SERVING, Kind, Note
from pdctl.adopt.observed import Seen
from pdctl.adopt.places import owner
from pdctl.errors import HostError
from pdctl.topology.model import Role

OWN_UNIT = re.compile(r"pdctl-(?P<cluster>.+)-(?P<role>prefiller|decoder|server)-(?P<index>\d+)\.service")
HINTS = {Role.PREFILLER: r"(?i)prefill|produc|sender", Role.DECODER: r"(?i)decod|consum|receiver"}


@dataclass(frozen=True)
class Deployment:
    """What is to be described by one spec; engines in the order of their future numbers."""

    hosts: tuple[Seen, ...]
    engines: tuple[Engine, ...]
    front: Front | None
    notes: tuple[Note, ...]

    def of(self, role: Role) -> tuple[Engine, ...]:
        return tuple(engine for engine in self.engines if engine.role is role)

    @property
    def roles(self) -> tuple[Role, ...]:
        return tuple(role for role in (Role.PREFILLER, Role.DECODER, Role.SERVER) if self.of(role))

    @property
    def cluster(self) -> str | None:
        """The name of the cluster whose units they are, if pdctl put them there."""
        named = {m["cluster"] for e in self.engines if (m := OWN_UNIT.fullmatch(e.process.unit))}
        return named.pop() if len(named) == 1 else None


def read_deployment(hosts: Sequence[Seen], model: str | None = None) -> Deployment:
    """Raises HostError when no engine runs, or none of `model`."""
    processes = [(seen, process) for seen in hosts for process in seen.answer.processes]
    engines = [read_engine(seen, process) for seen, process in processes if process.kind == "engine"]
    if not engines:
        raise HostError(
            "no engine runs there: nothing that looks like `vllm serve` was found",
            where=", ".join(seen.name for seen in hosts),
            hint="start the deployment first; look at its processes as root, so not with --no-sudo",
        )
    fronts = [f for seen, p in processes if p.kind == "proxy" and (f := read_front(seen, p))]
    chosen, notes = _of_one_model(hosts, engines, fronts, model)
    front = _front(hosts, fronts, chosen)
    placed, more = _with_roles(hosts, chosen, front)
    notes += more
    kept, more = _one_mode(placed)
    notes += more + list(_others(hosts, fronts, front)) + list(_contained(kept))
    return Deployment(tuple(hosts), tuple(_ordered(hosts, kept)), front, tuple(notes))


def member_of(hosts: Sequence[Seen], front: Front, engine: Engine) -> Role | None:
    """The side on which the proxy has the engine."""
    for member in front.members:
        if member.port == engine.port and owner(hosts, member.host, front.host) == engine.host:
            return member.role
    return None


def _known(hosts: Sequence[Seen], front: Front, engines: Sequence[Engine]) -> int:
    return sum(member_of(hosts, front, engine) is not None for engine in engines)


def _front(hosts: Sequence[Seen], fronts: Sequence[Front], engines: Sequence[Engine]) -> Front | None:
    """The proxy that sends to most of the engines; one whose names mean nothing here counts by its ports."""
    ports = {engine.port for engine in engines}
    ours = [f for f in fronts if _known(hosts, f, engines)]
    alike = [f for f in fronts if not f.members or any(member.port in ports for member in f.members)]
    return max(ours or alike, key=lambda f: _known(hosts, f, engines), default=None)


def _of_one_model(
    hosts: Sequence[Seen], engines: Sequence[Engine], fronts: Sequence[Front], model: str | None
) -> tuple[list[Engine], list[Note]]:
    """The engines of `model`, or of the one that most of them serve and those that belong to it."""
    models = list(dict.fromkeys(engine.model for engine in engines))
    if model is not None and model not in models:
        raise HostError(f"no engine serves `{model}`", hint=f"they serve: {', '.join(models)}")
    best = model or max(models, key=lambda m: sum(e.model == m for e in engines))
    chosen = [engine for engine in engines if engine.model == best]
    if model is None:
        shared = [f for f in fronts if _known(hosts, f, chosen)]
        roles = {engine.role for engine in chosen}
        for engine in engines:
            missing = engine.role in (Role.PREFILLER, Role.DECODER) and engine.role not in roles
            if engine not in chosen and (missing or any(member_of(hosts, f, engine) for f in shared)):
                chosen.append(engine)
    left = [engine for engine in engines if engine not in chosen]
    return chosen, [
        Note(
            Kind.LEFT_OUT,
            SERVING,
            engine.label,
            "serves another model; `--model` makes a draft of that one",
            engine.model,
        )
        for engine in left
    ]


def _with_roles(
    hosts: Sequence[Seen], engines: Sequence[Engine], front: Front | None
) -> tuple[list[Engine], list[Note]]:
    """kv_both says nothing: then the proxy's lists do, or names."""
    found: list[Engine] = []
    notes: list[Note] = []
    for engine in engines:
        role = engine.role or (member_of(hosts, front, engine) if front else None)
        if role is None:
            role = _by_name(engine) or (Role.DECODER if found else Role.PREFILLER)
            text = f"nothing tells which side it plays (kv_role kv_both); taken for a {role.value}"
            notes.append(Note(Kind.GUESS, POOLS[role.value], engine.label, text))
        found.append(dataclasses.replace(engine, role=role))
    return found, notes


def _by_name(engine: Engine) -> Role | None:
    extra = engine.transfer.get("kv_connector_extra_config")
    rpc = str(extra.get("lmcache_rpc_port", "")) if isinstance(extra, dict) else ""
    names = f"{engine.process.unit} {rpc} {engine.process.cwd}"
    fits = [role for role, pattern in HINTS.items() if re.search(pattern, names)]
    return fits[0] if len(fits) == 1 else None


def _one_mode(engines: Sequence[Engine]) -> tuple[list[Engine], list[Note]]:
    """Prefillers with decoders, or plain servers; and one engine for each port of a host."""
    two_sided = {Role.PREFILLER, Role.DECODER} & {engine.role for engine in engines}
    kept: list[Engine] = []
    notes: list[Note] = []
    for engine in engines:
        rival = next((o for o in kept if (o.host, o.port) == (engine.host, engine.port)), None)
        if two_sided and engine.role is Role.SERVER:
            text = "a server without KV transfer beside prefillers and decoders; a cluster has one mode"
            notes.append(Note(Kind.LEFT_OUT, SERVING, engine.label, text))
        elif rival is not None:
            text = f"listens on port {engine.port} like {rival.label}"
            notes.append(Note(Kind.CONTRADICTION, SERVING, engine.label, text))
        else:
            kept.append(engine)
    return kept, notes


def _others(hosts: Sequence[Seen], fronts: Sequence[Front], front: Front | None) -> list[Note]:
    """Processes beside the engines, and units that do not run."""
    found = [
        Note(Kind.LEFT_OUT, PROXY, other.label, f"another proxy ({other.kind}) on port {other.port}")
        for other in fronts
        if other is not front
    ]
    for seen in hosts:
        for process in seen.answer.processes:
            if process.kind == "cache":
                text = "a cache server of LMCache: pdctl runs LMCache inside of the engines only"
                found.append(Note(Kind.LEFT_OUT, SERVING, f"{seen.name}/{process.label}", text))
        for unit, state in seen.answer.stopped:
            text = f"does not run ({state}), so it is not in the draft; start it and adopt again if it counts"
            found.append(Note(Kind.LEFT_OUT, HOSTS, f"{seen.name}/{unit}", text))
        found += [Note(Kind.GUESS, HOSTS, seen.name, note) for note in seen.answer.notes]
    return found


def _contained(engines: Sequence[Engine]) -> Iterator[Note]:
    for engine in engines:
        if engine.process.unread:
            text = "its variables could not be read, so GPUs and settings are not known; look as root"
            yield Note(Kind.GUESS, SERVING, engine.label, text)
        if engine.process.container:
            text = "runs in a container; pdctl installs and runs it on the host, where paths may be others"
            yield Note(Kind.DIFFERENT, SERVING, engine.label, text)


def _ordered(hosts: Sequence[Seen], engines: Sequence[Engine]) -> list[Engine]:
    """By role, then by the numbers in their units' names where those tell, else by host and port."""
    rank = {seen.name: index for index, seen in enumerate(hosts)}
    found: list[Engine] = []
    for role in (Role.PREFILLER, Role.DECODER, Role.SERVER):
        some = [engine for engine in engines if engine.role is role]
        numbers = [number_of(engine) for engine in some]
        if None not in numbers and len(set(numbers)) == len(numbers):
            found += sorted(some, key=lambda e: number_of(e) or 0)
        else:
            found += sorted(some, key=lambda e: (rank[e.host], e.port))
    return found


def number_of(engine: Engine) -> int | None:
    """7 for `decode-7.service` and `vllm@7.service`."""
    match = re.search(r"(\d+)\.service$", engine.process.unit)
    return int(match.group(1)) if match else None
