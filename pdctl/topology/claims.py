"""Topology -> what each host's ports and GPUs are for, so that the host can tell who else is on them."""

from __future__ import annotations

from typing import Any

from pdctl.topology.model import Topology

# Opened for others. An engine takes another port where one of its own, inner ones is taken.
OPENED = ("http", "side_channel", "init", "alloc")
ANY = "0.0.0.0"


def claims(topology: Topology) -> dict[str, dict[str, Any]]:
    """By host: `ports` as [port, address, instance], `gpus` as index -> instance. JSON-like."""
    found: dict[str, dict[str, Any]] = {name: {"ports": [], "gpus": {}} for name in topology.hosts}
    for item in topology.instances:
        mine = found[item.host]
        mine["ports"] += [
            [port, item.address, item.name] for purpose, port in item.ports.named() if purpose in OPENED
        ]
        mine["gpus"] |= {str(index): item.name for index in item.gpus}
    proxy = topology.proxy
    ports = [proxy.http, proxy.metrics, proxy.notification]
    found[proxy.host]["ports"] += [[port, ANY, "proxy"] for port in ports if port]
    return found
