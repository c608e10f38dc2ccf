"""Topology -> one look at all its hosts that only reads, for `validate --hosts` and `doctor`."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from pdctl.desired import desire
from pdctl.desired.repositories import FOLDER
from pdctl.hosts.probe import probe
from pdctl.hosts.questions import questions
from pdctl.hosts.suitability import Glance
from pdctl.hosts.timing import laps
from pdctl.state import File, Package, Resource, Venv
from pdctl.topology.claims import claims
from pdctl.topology.model import Topology


def glance(topology: Topology, folder: Path, only: Collection[str] = (), *, thorough: bool = False) -> Glance:
    """Environments are asked for as well, since what is there needs no more room, and packages, repositories:
    hosts look at their drivers, kernels and package lists where one is wanted. `only` names the hosts to look
    at; none: all; a `thorough` look asks for what takes them longer, too."""
    spec = topology.spec
    if only:
        spec = spec.model_copy(update={"hosts": [host for host in spec.hosts if host.name in only]})
    wanted = {key: each for key, each in desire(topology).items() if _is_asked(each)}
    deep = questions(topology) if thorough else None
    since = time.time()
    with laps("probe"):
        seen = probe(spec, wanted, folder, claims=claims(topology), deep=deep)
    return Glance(seen, wanted, since, time.time())


def _is_asked(each: Resource) -> bool:
    return isinstance(each, Venv | Package) or (isinstance(each, File) and each.path.startswith(FOLDER))
