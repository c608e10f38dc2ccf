"""The arrow topology -> apt's sources on one host, each with the key that alone is trusted for it."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.desired.render import rendered
from pdctl.spec.model import Host
from pdctl.state import File
from pdctl.topology.model import Topology

FOLDER = "/etc/apt/sources.list.d/"
SOURCES = FOLDER + "pdctl-{}-{}.sources"


def repositories(topology: Topology, host: Host) -> Iterator[File]:
    """deb822 files. apt takes a key in the file itself since 2.3.10, jammy has 2.4 (its changelog)."""
    for each in topology.spec.apt.repositories:
        if each.os and topology.hosts[host.name].os not in each.os:
            continue
        yield rendered(
            SOURCES.format(topology.cluster, each.name),
            "apt-source.j2",
            cluster=topology.cluster,
            uri=each.uri,
            suites=each.suites,
            components=each.components,
            key=each.key.splitlines(),
        )
