"""The example inventories, resolved and desired once for all tests."""

from __future__ import annotations

import functools
from pathlib import Path

from pdctl.assets import assets
from pdctl.desired import desire
from pdctl.spec.load import load
from pdctl.state import Key, Resource
from pdctl.topology import Topology, resolve

EXAMPLES = sorted(p.parent.name for p in assets("inventories").glob("*/cluster.yaml"))


def spec_path(name: str) -> Path:
    return assets("inventories") / name / "cluster.yaml"


@functools.cache
def topology(name: str) -> Topology:
    return resolve(load(spec_path(name)))


@functools.cache
def desired(name: str) -> dict[Key, Resource]:
    return desire(topology(name))
