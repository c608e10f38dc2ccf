"""Key -> the part of the spec that it stands there for, whether that has changed or not."""

from __future__ import annotations

from collections.abc import Mapping

from pdctl.plan.belonging import Layer, instance_of_key, layer_of, role_of
from pdctl.plan.wording import line_of, named
from pdctl.spec.finding import Path
from pdctl.spec.load import Reading
from pdctl.spec.locate import find
from pdctl.state import Key
from pdctl.topology.model import Role, Topology
from pdctl.topology.placement import POOL_FIELD

OF_LAYER: dict[Layer, Path] = {
    Layer.PACKAGES: ("stack",),
    Layer.RUNTIME: ("engine",),
    Layer.MODEL: ("model",),
}


def asked_at(topology: Topology, reading: Reading, key: Key, positions: Mapping[str, int]) -> tuple[str, str]:
    """The key path, as far as the file has it, and its line: `serving.decoders`, `cluster.yaml:12`.

    `positions` say where each host stands in the spec's list.
    """
    path = _path(topology, reading, key, positions)
    held = find(reading.text.root, path).path
    if not held:  # a section that was left out: its default asks
        return named(path[:1]), reading.text.source.name
    return _named(reading, held), line_of(reading, _by_name(reading, held))


def _path(topology: Topology, reading: Reading, key: Key, positions: Mapping[str, int]) -> Path:
    instance = instance_of_key(topology.cluster, key)
    if instance:
        return _of_instance(reading, instance)
    if key.id.endswith("/secrets.env"):
        return ("secrets",)
    if layer_of(key) is Layer.RUNTIME and "/proxy-" in key.id:
        return ("serving", "proxy")
    if layer_of(key) in OF_LAYER:
        return OF_LAYER[layer_of(key)]
    return ("hosts", positions[key.host]) if key.host in positions else ("hosts",)


def _of_instance(reading: Reading, instance: str) -> Path:
    role = role_of(instance)
    if role == Role.PROXY:
        return ("serving", "proxy")
    pool = POOL_FIELD[Role(role)]
    found: Path = ("serving", pool, "placement", int(instance.split("-")[1]))
    return found if find(reading.text.root, found).path == found else ("serving", pool)


def _named(reading: Reading, path: Path) -> str:
    return named(_by_name(reading, path))


def _by_name(reading: Reading, path: Path) -> Path:
    if path[:1] == ("hosts",) and len(path) > 1:
        return ("hosts", reading.cluster.hosts[int(path[1])].name, *path[2:])
    return path
