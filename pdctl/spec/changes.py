"""Two specs -> the fields in which they differ, and the specs between them: the old one with some changed."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple

from pdctl.spec.finding import Path
from pdctl.spec.model import Cluster

# Sections that no host ever sees: how hosts are reached, and what is measured.
UNSEEN = ("ssh", "slo", "bench", "generations")

ROLLOUT = ("serving", "rollout")  # how changes reach the hosts


class Absent(Enum):
    """What stands where a spec has nothing."""

    ABSENT = "absent"


class Field(NamedTuple):
    """One field that differs. Hosts are named in its path, `("hosts", "gpu02", "os")`; `before` or `after` is
    `Absent.ABSENT` where a host or a key of a mapping came or went."""

    path: Path
    before: Any
    after: Any

    @property
    def seen(self) -> bool:
        """Whether a host could ever be told of it."""
        hosts_own = self.path[:1] == ("hosts",) and self.path[2:3] == ("ssh",)
        return self.path[0] not in UNSEEN and self.path[:2] != ROLLOUT and not hosts_own


def changed_fields(before: Cluster, after: Cluster) -> list[Field]:
    """In the order of the model; defaults count as written, so spelling one out is no change."""
    return list(_changed(before.model_dump(), after.model_dump(), ()))


def with_fields(before: Cluster, after: Cluster, fields: Iterable[Field]) -> Cluster:
    """`before` with `fields` as they are in `after`. Raises pydantic's ValidationError if that is no spec."""
    values = copy.deepcopy(before.model_dump())
    order = [host.name for host in after.hosts]
    for field in fields:
        if field.path == ("hosts",):
            values["hosts"] = _in_order(values["hosts"], order)
        elif field.path[0] == "hosts":
            _set_host(values["hosts"], field, order)
        else:
            _set(values, field.path, field.after)
    return Cluster.model_validate(values)


def _changed(before: Any, after: Any, path: Path) -> Iterator[Field]:
    if path == ("hosts",):
        yield from _hosts(before, after)
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from _changed(before.get(key, Absent.ABSENT), after.get(key, Absent.ABSENT), (*path, key))
    elif _alike(before, after):
        for index, (one, two) in enumerate(zip(before, after, strict=True)):
            yield from _changed(one, two, (*path, index))
    elif before != after:
        yield Field(path, before, after)


def _alike(before: Any, after: Any) -> bool:
    """Lists of as many mappings: their entries are told apart."""
    if not isinstance(before, list) or not isinstance(after, list) or len(before) != len(after):
        return False
    return bool(before) and all(isinstance(entry, dict) for entry in [*before, *after])


def _hosts(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterator[Field]:
    """Hosts are told apart by their names; their order is a field too, since placement follows it."""
    old, new = ({host["name"]: host for host in hosts} for hosts in (before, after))
    orders = [[name for name in names if name in old and name in new] for names in (old, new)]
    if orders[0] != orders[1]:
        yield Field(("hosts",), *orders)
    for name in dict.fromkeys([*old, *new]):
        yield from _changed(old.get(name, Absent.ABSENT), new.get(name, Absent.ABSENT), ("hosts", name))


def _set_host(hosts: list[dict[str, Any]], field: Field, order: list[str]) -> None:
    name = str(field.path[1])
    if len(field.path) > 2:
        _set(next(host for host in hosts if host["name"] == name), field.path[2:], field.after)
    elif field.after is Absent.ABSENT:
        hosts[:] = [host for host in hosts if host["name"] != name]
    else:
        earlier = set(order[: order.index(name)])
        place = max((i + 1 for i, host in enumerate(hosts) if host["name"] in earlier), default=0)
        hosts.insert(place, field.after)


def _in_order(hosts: list[dict[str, Any]], order: list[str]) -> list[dict[str, Any]]:
    """Those that `order` names in its order, in the places that they have among the others."""
    wanted = iter(sorted((h for h in hosts if h["name"] in order), key=lambda h: order.index(h["name"])))
    return [next(wanted) if host["name"] in order else host for host in hosts]


def _set(values: dict[str, Any], path: Path, value: Any) -> None:
    inside: Any = values
    for step in path[:-1]:
        inside = inside[step]
    if value is Absent.ABSENT:
        inside.pop(path[-1], None)
    else:
        inside[path[-1]] = copy.deepcopy(value)
