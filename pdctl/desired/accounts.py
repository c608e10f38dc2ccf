"""The arrow topology -> what the service user may take of a host when somebody works as it by hand."""

from __future__ import annotations

from pdctl.desired.layout import SERVICE_USER
from pdctl.desired.render import rendered
from pdctl.knowledge.needs import GPU_ENGINE_LIMITS, PAM_ITEMS
from pdctl.state import File
from pdctl.topology.model import Topology
from pdctl.topology.placement import uses_gpus

LIMITS = "/etc/security/limits.d/pdctl-{}.conf"


def limits(topology: Topology) -> list[File]:
    """What `runuser -u pdctl` gets for UCX's own tools; services have theirs from their units."""
    if not uses_gpus(topology.spec):
        return []
    rows = [(PAM_ITEMS[name], value) for name, value in GPU_ENGINE_LIMITS]
    path = LIMITS.format(topology.cluster)
    return [rendered(path, "limits.j2", cluster=topology.cluster, user=SERVICE_USER, rows=rows)]
