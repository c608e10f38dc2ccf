"""Folders that two instances of a host would share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pdctl.knowledge.variables import COMPILE_CACHES
from pdctl.spec.finding import Finding, Path
from pdctl.spec.model import Cluster
from pdctl.topology.model import Instance
from pdctl.topology.placement import POOL_FIELD


def shared_caches(cluster: Cluster, instances: Iterable[Instance]) -> Iterator[Finding]:
    """pdctl gives each instance caches of its own; a variable in `env` gives all of a role the same."""
    given: dict[str, list[tuple[str, str]]] = {}
    for field in POOL_FIELD.values():
        pool = getattr(cluster.serving, field)
        env = pool.env if pool else {}
        given[field] = [(name, env[name]) for name in COMPILE_CACHES if name in env]
    first: dict[tuple[str, str, str], str] = {}
    told: set[Path] = set()
    for item in instances if any(given.values()) else ():
        for name, folder in given[POOL_FIELD[item.role]]:
            owner = first.setdefault((item.host, name, folder), item.name)
            path: Path = ("serving", POOL_FIELD[item.role], "env", name)
            if owner != item.name and path not in told:
                told.add(path)
                yield Finding(
                    "ENV003",
                    path,
                    f"{owner} and {item.name} on {item.host} would share this folder, and compile caches that"
                    " are written by two engines at once are broken",
                    "remove it: pdctl gives each instance a folder of its own",
                )
