"""A cluster's name -> what on a host nobody but pdctl can have put there."""

from __future__ import annotations

import os
import re

UNIT_FOLDER = "/etc/systemd/system/"  # a unit is there as soon as its file is
# Names of instances: `pdctl-chat-two-decoder-0.service` of cluster `chat-two` is none of cluster `chat`.
INSTANCE = r"(?:proxy|(?:prefiller|decoder|server)-[0-9]+)"
# Of all clusters together; deleting asks the records of the others first.
SHARED = ("directory:/etc/pdctl", "directory:/opt/pdctl/venvs", "directory:/var/cache/pdctl")


def is_own(key: str, cluster: str) -> bool:
    """Whether pdctl made `key` (`kind:name`), also when no record tells it any more."""
    kind, name = key.split(":", 1)
    if kind == "unit":
        return is_own_unit(name, cluster)
    if kind == "venv":
        return name.startswith("/opt/pdctl/venvs/")
    if kind == "directory":
        return key in SHARED or name in (f"/etc/pdctl/{cluster}", f"/var/cache/pdctl/{cluster}")
    if kind == "file":
        unit = name[len(UNIT_FOLDER) :] if name.startswith(UNIT_FOLDER) else ""
        pins = f"/etc/apt/preferences.d/pdctl-{cluster}"
        return is_own_unit(unit, cluster) or name.startswith(f"/etc/pdctl/{cluster}/") or name == pins
    return False


def is_own_unit(name: str, cluster: str) -> bool:
    return re.fullmatch(f"pdctl-{re.escape(cluster)}-{INSTANCE}\\.service", name) is not None


def unit_files(cluster: str, folder: str = UNIT_FOLDER) -> list[str]:
    """Names of the cluster's unit files that lie on this host."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if is_own_unit(name, cluster))
