"""The proxy's configuration: what it fronts and how the two legs speak."""

from __future__ import annotations

import json
from typing import Any

from pdctl.desired.engine import decode_leg
from pdctl.desired.layout import control_path
from pdctl.knowledge import versions
from pdctl.knowledge.versions import at_least
from pdctl.state.digest import object_digest
from pdctl.topology.model import Instance, Role, Topology


def proxy_config(topology: Topology) -> bytes:
    """JSON that `pdctl_proxy` reads; the format is its own (docs/proxy.md)."""
    return (json.dumps(_config(topology), indent=1) + "\n").encode()


# Taken up by a running proxy when it is told to read its file again (docs/proxy.md).
RELOADABLE = ("prefillers", "decoders", "servers", "limits", "health")


def static_digest(config: bytes) -> str:
    """Digest of the part that only a restart of the proxy brings into force."""
    found = json.loads(config)
    return object_digest({key: value for key, value in found.items() if key not in RELOADABLE})


def _config(topology: Topology) -> dict[str, Any]:
    serving, place = topology.spec.serving, topology.proxy
    found: dict[str, Any] = {
        "cluster": topology.cluster,
        "mode": serving.mode,
        "model": topology.served_name,
        "listen": {"host": _front_address(topology), "port": place.http},
        "metrics": {"host": place.address, "port": place.metrics},
        "control": control_path(topology.cluster),
    }
    if serving.mode == "aggregated":
        return found | {"connector": None, "servers": [_plain(i) for i in topology.of(Role.SERVER)]}
    found |= {
        "connector": serving.connector,
        "prefillers": [_plain(i) for i in topology.of(Role.PREFILLER)],
        "decoders": [_decoder(topology, i) for i in topology.of(Role.DECODER)],
    }
    return found | (_lmcache(topology) if serving.connector == "lmcache" else {"chat": True})


def _front_address(topology: Topology) -> str:
    """Clients come over the public address where the hosts have a private network of their own."""
    host = topology.hosts[topology.proxy.host]
    return host.private if host.private == host.address else "0.0.0.0"


def _lmcache(topology: Topology) -> dict[str, Any]:
    return {
        "notification": {"host": topology.proxy.address, "port": topology.proxy.notification},
        "chunk_size": topology.spec.serving.lmcache.chunk_size,
        "decode_leg": decode_leg(topology),
        "chat": at_least(topology.pins["lmcache"], versions.CHAT_OVER_LMCACHE),
    }


def _plain(instance: Instance) -> dict[str, Any]:
    return {"name": instance.name, "url": instance.url}


def _decoder(topology: Topology, instance: Instance) -> dict[str, Any]:
    found = _plain(instance)
    if topology.kv is not None:
        found |= {
            "host": instance.address,
            "init_ports": list(instance.ports.init),
            "alloc_ports": list(instance.ports.alloc),
            "slots": topology.kv.slots,
        }
    return found
