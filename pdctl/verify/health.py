"""Asks every instance and the proxy how they are."""

from __future__ import annotations

import json
from collections.abc import Container
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from pdctl.errors import PdctlError
from pdctl.hosts.doors import Doors
from pdctl.topology.model import Topology
from pdctl.verify.complaints import complaints
from pdctl.verify.http import Client

TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Health:
    """One answer: `healthy`, or why not; the version, and whether it is a simulated one."""

    ok: bool
    reason: str
    version: str = ""
    simulated: bool = False


def health(topology: Topology, folder: Path, unreachable: Container[str]) -> dict[str, Health]:
    """By instance name, `proxy` included; instances on unreachable hosts are not asked."""
    place = topology.proxy
    doors_to = {i.name: (i.host, i.address, i.ports.http) for i in topology.instances}
    doors_to["proxy"] = (place.host, place.address, place.http)
    with Doors(topology, folder) as doors, ThreadPoolExecutor(max_workers=16) as pool:
        reachable = {name: to for name, to in doors_to.items() if to[0] not in unreachable}
        doors.open(host for host, *_ in reachable.values())
        tunnels = {name: doors.tunnel(*to) for name, to in reachable.items()}
        asked = {name: pool.submit(_ask, name, tunnel) for name, tunnel in tunnels.items()}
        found = {name: future.result() for name, future in asked.items()}
        serving = [each for each in topology.instances if each.name in found and found[each.name].ok]
        for name, line in complaints(topology, doors, serving).items():
            found[name] = replace(found[name], ok=False, reason=f"serves, but says: {line}")
    return found | {n: Health(False, "host not reachable") for n in doors_to if n not in found}


def _ask(name: str, connect_to: tuple[str, int]) -> Health:
    client = Client(name, connect_to, TIMEOUT_S)
    try:
        client.get("/ready" if name == "proxy" else "/health")
        version = client.get_json("/version")
    except PdctlError as error:
        return Health(False, error.message)
    number = version.get("version") or version.get("proxy") or json.dumps(version)
    return Health(True, "healthy", str(number), bool(version.get("simulated")))
