"""Topology -> clients for the proxy and for engines, whose errors say where and what to do next."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from pdctl.errors import PdctlError, UnhealthyError
from pdctl.hosts.doors import Doors
from pdctl.hosts.parallel import on_each
from pdctl.topology.model import Instance, Role, Topology
from pdctl.verify.http import Client, StatusError

T = TypeVar("T")
NOT_ARRIVED = "the KV of this prompt did not arrive"  # the proxy's words, proxy/lmcache.py


def front(topology: Topology, doors: Doors) -> Client:
    """The proxy."""
    place = topology.proxy
    return _client(doors, "proxy", place.host, place.address, place.http)


def engine(doors: Doors, instance: Instance) -> Client:
    """One engine, asked directly."""
    return _client(doors, instance.name, instance.host, instance.address, instance.ports.http)


def ask_all(doors: Doors, instances: Iterable[Instance], ask: Callable[[Client], T]) -> dict[str, T]:
    """`ask` of every instance at once; answers by name. Raises the error of the first that gives none."""
    clients = {instance.name: engine(doors, instance) for instance in instances}
    answers: dict[str, T] = {}
    for name, outcome in on_each(clients, ask):
        if isinstance(outcome, PdctlError):
            raise outcome
        answers[name] = outcome
    return {name: answers[name] for name in clients}


def refused(error: StatusError, topology: Topology) -> UnhealthyError:
    """What the proxy answered to a prompt, with the journal that says why."""
    named = [i.name for i in topology.instances if re.search(rf"(?<![\w-]){i.name}(?![\w-])", error.said)]
    if NOT_ARRIVED in error.said:
        sender = next(i.name for i in topology.of(Role.PREFILLER) if i.name in named or not named)
        hint = f"`pdctl logs {sender}` shows what it could not send"
        return UnhealthyError(error.said, where=error.where, hint=hint)
    hint = f"`pdctl logs {named[0] if named else 'proxy'}` shows why"
    return UnhealthyError(error.message, where=error.where, hint=hint)


def _client(doors: Doors, name: str, host: str, address: str, port: int) -> Client:
    hint = f"`pdctl logs {name}` shows why"
    return Client(f"{host}/{name}", doors.tunnel(host, address, port), hint=hint)
