"""spec -> topology: every instance named and placed, every port given, no defaults left."""

from pdctl.topology.model import Instance, Peer, Ports, ProxyPlace, Role, Topology
from pdctl.topology.resolve import resolve

__all__ = ["Instance", "Peer", "Ports", "ProxyPlace", "Role", "Topology", "resolve"]
