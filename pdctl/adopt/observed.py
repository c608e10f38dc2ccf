"""JSON of one host -> Seen: its serving processes and what they were started from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pdctl.errors import HostError

HIDDEN = "***"  # what stands in the place of a secret (pdctl_adopt_secrets.py)


@dataclass(frozen=True)
class Gpu:
    index: int
    uuid: str
    name: str
    driver_version: str = ""


@dataclass(frozen=True)
class Facts:
    hostname: str
    os_id: str
    os_version: str
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True)
class Process:
    """The head of a family of processes that serves. Secrets are known by name only."""

    pid: int
    kind: str  # engine, proxy, cache
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()  # variables that hold one
    rest: tuple[str, ...] = ()  # variables whose values stayed on the host
    unread: bool = False  # its variables may not be read by this login
    cwd: str = "/"
    user: str = ""
    unit: str = ""  # the service that runs it
    user_unit: bool = False
    container: bool = False
    listens: tuple[tuple[str, int], ...] = ()
    gpus: tuple[str, ...] = ()  # UUIDs of those it uses
    versions: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # as named by flags and variables -> text
    models: Mapping[str, str] = field(default_factory=dict)  # a word of argv -> config.json

    @property
    def label(self) -> str:
        return self.unit or f"pid {self.pid}"


@dataclass(frozen=True)
class Answer:
    """What the host says."""

    facts: Facts
    addresses: tuple[tuple[str, str], ...] = ()  # interface, IPv4 address
    packages: Mapping[str, str] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    stopped: tuple[tuple[str, str], ...] = ()  # unit, state
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """One host: its name in the spec, its address as reached, and its answer.

    `ssh` is what the spec is to say of reaching it, `given` what an earlier spec says of the host itself.
    """

    name: str
    address: str
    answer: Answer
    ssh: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)


def read_answer(host: str, data: Any) -> Answer:
    try:
        return _adapter().validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise HostError(f"its answer is wrong at {place}: {first['msg']}", where=host) from None


@cache
def _adapter() -> TypeAdapter[Answer]:
    return TypeAdapter(Answer)
