"""What a host would see: each engine as its own files describe it, read by nothing of pdctl."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from pdctl.desired import desire
from pdctl.spec.load import load
from pdctl.state import File, Key, Resource, Unit
from pdctl.topology import resolve
from tests.examples import spec_path
from tests.topology.specs import cluster
from tests.units import reader

UNIT_FOLDER = "/etc/systemd/system/"


@dataclass(frozen=True)
class Engine:
    """One engine: what its unit file says, and the files that unit leads to."""

    name: str
    host: str
    argv: list[str]
    env: dict[str, str]
    lmcache: dict[str, Any]  # empty when the environment names no file
    unit: dict[str, list[tuple[str, str]]]

    def flag(self, name: str) -> str | None:
        """The value of `--name VALUE`; None when the flag is not there."""
        return self.argv[self.argv.index(f"--{name}") + 1] if f"--{name}" in self.argv else None

    @property
    def transfer(self) -> dict[str, Any] | None:
        value = self.flag("kv-transfer-config")
        return None if value is None else json.loads(value)

    @property
    def port(self) -> int:
        return int(self.flag("port") or 0)

    def setting(self, section: str, key: str) -> list[str]:
        return [value for name, value in self.unit[section] if name == key]


@dataclass(frozen=True)
class Rendered:
    """The files and units of a cluster."""

    state: Mapping[Key, Resource]
    engines: dict[str, Engine]
    proxy: dict[str, Any]
    proxy_host: str

    def role(self, role: str) -> list[Engine]:
        return [engine for engine in self.engines.values() if engine.name.startswith(role)]

    def texts(self) -> dict[Key, str]:
        return {
            key: resource.content.decode()
            for key, resource in self.state.items()
            if isinstance(resource, File) and resource.content is not None
        }


def rendered(**changes: Any) -> Rendered:
    """A cluster as in tests.topology.specs, rendered."""
    return read(desire(resolve(cluster(**changes))))


@functools.cache
def example(name: str) -> Rendered:
    return read(desire(resolve(load(spec_path(name)))))


def read(state: Mapping[Key, Resource]) -> Rendered:
    engines: dict[str, Engine] = {}
    proxy, proxy_host = {}, ""
    for key, resource in state.items():
        if not isinstance(resource, Unit):
            continue
        if resource.role == "proxy":
            proxy_host = key.host
            proxy = json.loads(text(state, key.host, "/proxy.json"))
        else:
            engines[resource.instance] = engine(state, key.host, resource)
    return Rendered(state, engines, proxy, proxy_host)


def engine(state: Mapping[Key, Resource], host: str, unit: Unit) -> Engine:
    unit_text = text(state, host, UNIT_FOLDER + unit.name)
    env = reader.env_file(text(state, host, reader.values(unit_text, "Service", "EnvironmentFile")[0]))
    path = env.get("LMCACHE_CONFIG_FILE")
    return Engine(
        name=unit.instance,
        host=host,
        argv=reader.exec_start(unit_text),
        env=env,
        lmcache=yaml.safe_load(text(state, host, path)) if path else {},
        unit=reader.sections(unit_text),
    )


def text(state: Mapping[Key, Resource], host: str, end: str) -> str:
    """The one file of the host whose path ends so."""
    [found] = [
        r.content.decode()
        for key, r in state.items()
        if key.host == host and isinstance(r, File) and r.path.endswith(end) and r.content is not None
    ]
    return found


def program_is_of(argv: list[str], venv: str) -> bool:
    """Whether the program is the Python of the runtime with that name."""
    path = Path(argv[0])
    return (
        path.name == "python" and path.parts[:4] == ("/", "opt", "pdctl", "venvs") and venv in path.parts[4]
    )
