"""Key -> whose it is: the instance that alone reads it, and the layer of the host it lies in."""

from __future__ import annotations

import functools
import re
from enum import StrEnum

from pdctl.desired.layout import MODELS, UNITS, config_dir, unit_name
from pdctl.state import Key

# Names of instances, and of the files that only one of them reads.
INSTANCE = r"proxy|(?:prefiller|decoder|server)-[0-9]+"
# Files that belong to packages: apt's own settings, and what the kernel's modules are loaded by.
OF_BASE = ("/etc/security/limits.d/",)  # and to the service user its limits
OF_PACKAGES = ("/etc/apt/", "/etc/modprobe.d/")


class Layer(StrEnum):
    """What a host holds, from the ground up."""

    BASE = "base"
    PACKAGES = "packages"
    RUNTIME = "runtime"
    MODEL = "model"
    CONFIG = "config"
    UNITS = "units"


LAYER_OF_KIND = {
    "user": Layer.BASE,
    "directory": Layer.BASE,
    "package": Layer.PACKAGES,
    "venv": Layer.RUNTIME,
    "weights": Layer.MODEL,
    "file": Layer.CONFIG,
    "unit": Layer.UNITS,
}


def layer_of(key: Key) -> Layer:
    kind, name = key.id.split(":", 1)
    if name == MODELS or name.startswith(f"{MODELS}/"):
        return Layer.MODEL
    if name.startswith(OF_BASE):
        return Layer.BASE
    return Layer.PACKAGES if name.startswith(OF_PACKAGES) else LAYER_OF_KIND[kind]


def instance_of_key(cluster: str, key: Key) -> str:
    """`decoder-1` for its unit, unit file, environment and LMCache file; empty for what is the host's."""
    return _owner(cluster, key.id)


@functools.lru_cache(maxsize=1 << 17)  # asked several times for each of some 30,000 things of 1,000 hosts
def _owner(cluster: str, key_id: str) -> str:
    found = _owned(cluster).match(key_id)
    return found[1] if found else ""


@functools.cache
def _owned(cluster: str) -> re.Pattern[str]:
    prefix = re.escape(unit_name(cluster, "").removesuffix(".service"))
    folders = f"file:{UNITS}/{prefix}|unit:{prefix}|file:{re.escape(config_dir(cluster))}/"
    return re.compile(rf"(?:{folders})({INSTANCE})\.")


def role_of(instance: str) -> str:
    """`decoder` of `decoder-1`; the proxy is its own role."""
    return instance.split("-")[0]
