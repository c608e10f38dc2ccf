"""What only an explicit word allows: to go back to an older version of a package, and to reboot a host."""

from __future__ import annotations

from dataclasses import replace

from pdctl.apply.look import Look
from pdctl.errors import ApplyError, HostError, PdctlError
from pdctl.plan.downgrades import downgrades
from pdctl.plan.reboots import FLAG as REBOOT
from pdctl.state import Package
from pdctl.topology.model import Topology

SHOWN = 4
FLAG = "--allow-downgrades"


def allowing_reboots(topology: Topology, allowed: bool) -> Topology:
    """The same cluster with the consent that `serving.rollout.allow_reboot` gives."""
    spec = topology.spec
    if not allowed or spec.serving.rollout.allow_reboot:
        return topology
    rollout = spec.serving.rollout.model_copy(update={"allow_reboot": True})
    serving = spec.serving.model_copy(update={"rollout": rollout})
    return replace(topology, spec=spec.model_copy(update={"serving": serving}))


def refused_reboots(seen: Look) -> list[PdctlError]:
    """Hosts that were to be rebooted, and were not, with what to do."""
    return [
        HostError(f"it needs a reboot and gets none: {why}", where=host)
        for host, why in sorted(seen.plan.reboots.refused.items())
    ]


def waiting_reboots(seen: Look) -> list[str]:
    """What is left because nobody has allowed a reboot, in lines."""
    told = seen.plan.reboots
    lines = []
    for host in told.left:
        if host not in told.refused:
            what = "; ".join(dict.fromkeys(need.words for need in told.of(host)))
            engines = ", no engine is started there" if host in told.resting else ""
            lines.append(
                f"{host} waits for a reboot ({what}){engines}: `pdctl apply {REBOOT}` carries it out"
            )
    return lines


def refuse_downgrades(seen: Look, *, allowed: bool) -> None:
    """Raises ApplyError before anything is changed."""
    found = list(downgrades(seen.plan))
    if allowed or not found:
        return
    words = []
    for change in found[:SHOWN]:
        want, have = change.desired, change.observed
        assert isinstance(want, Package) and isinstance(have, Package)
        words.append(f"{change.key.host}: {want.name} {have.version} -> {want.version}")
    more = f"; and {len(found) - SHOWN} more" if found[SHOWN:] else ""
    raise ApplyError(
        f"packages would become older, and nothing was changed: {'; '.join(words)}{more}",
        hint=f"`pdctl apply {FLAG}` does it, with all that belongs to them; or pin the newer version",
    )
