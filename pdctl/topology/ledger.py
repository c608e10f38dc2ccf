"""Every port of every host in one ledger -> what is wrong with them, both owners named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pdctl.knowledge.ports import EPHEMERAL, FIRST_UNPRIVILEGED, LAST, SSH
from pdctl.spec.finding import Finding, Path
from pdctl.spec.locate import written
from pdctl.spec.model import Cluster
from pdctl.spec.rules.settings import effective
from pdctl.spec.serving import InstancePorts, Pool
from pdctl.topology.model import Instance, ProxyPlace
from pdctl.topology.placement import POOL_FIELD

MOST_NAMED = 4


class Claim(NamedTuple):
    """One owner's ports of one kind on a host, and the field of the spec that decides them."""

    host: str
    owner: str
    kind: str
    ports: Sequence[int]
    path: Path
    pinned: bool = False

    def __str__(self) -> str:
        return f"{self.owner} ({self.kind})"


def port_findings(cluster: Cluster, instances: Iterable[Instance], proxy: ProxyPlace) -> list[Finding]:
    """Ports used twice on a host, and ports that a service should not or cannot take."""
    claims = [*_front(proxy)]
    for item in instances:
        claims += [*_claims(cluster, item), *_published(cluster, item)]
    return [*_twice(claims), *_sshd(cluster, claims), *_ranges(claims)]


def _front(proxy: ProxyPlace) -> Iterator[Claim]:
    for kind in ("http", "metrics", "notification"):
        port = getattr(proxy, kind)
        if port is not None:
            yield Claim(proxy.host, "proxy", kind, (port,), ("serving", "proxy", "ports", kind), True)


def _claims(cluster: Cluster, item: Instance) -> Iterator[Claim]:
    pool: Pool = getattr(cluster.serving, POOL_FIELD[item.role])
    pins = pool.placement[item.index].ports if pool.placement else None
    place: Path = ("serving", POOL_FIELD[item.role], "placement", item.index, "ports")
    for kind in ("http", "side_channel", "init", "alloc", "internal_api", "engine"):
        ports = getattr(item.ports, kind)
        pinned = kind in InstancePorts.model_fields and getattr(pins, kind, None) is not None
        base = ("serving", "ports", item.role.value if kind == "http" else kind)
        if ports:
            yield Claim(
                item.host,
                item.name,
                kind,
                (ports,) if isinstance(ports, int) else ports,
                (*place, kind) if pinned else base,
                pinned,
            )


def _published(cluster: Cluster, item: Instance) -> Iterator[Claim]:
    """`--kv-events-config` opens a port of its own (vLLM distributed/kv_events.py)."""
    field = POOL_FIELD[item.role]
    words = getattr(cluster.serving, field).extra_args
    config, at = effective(words).get("--kv-events-config", (None, 0)) if words else (None, 0)
    endpoint = config.get("endpoint") if isinstance(config, dict) else None
    port = re.search(r":(\d{1,5})$", endpoint) if isinstance(endpoint, str) else None
    if port:
        path: Path = ("serving", field, "extra_args", at)
        yield Claim(item.host, item.name, "KV events", (int(port[1]),), path, True)


def _twice(claims: Iterable[Claim]) -> Iterator[Finding]:
    """One finding for each two fields that meet on a host, however many instances take ports from them."""
    owners: dict[tuple[str, int], Claim] = {}
    clashes: dict[tuple[str, Path, Path], list[tuple[Claim, Claim, int]]] = {}
    for claim in claims:
        for port in claim.ports:
            first = owners.setdefault((claim.host, port), claim)
            if first is not claim or claim.ports.count(port) > 1:
                at, other = (first, claim) if first.pinned and not claim.pinned else (claim, first)
                clashes.setdefault((claim.host, at.path, other.path), []).append((first, claim, port))
    for (host, at_path, other_path), rows in clashes.items():
        first, claim, _ = rows[0]
        ports = [port for *_, port in rows]
        more = len({(str(first), str(claim)) for first, claim, _ in rows}) - 1
        others = f", and {more} more pairs meet so" if more else ""
        yield Finding(
            "PORT003",
            at_path,
            f"{_numbers(ports)} on {host} {_is(ports)} used by {first} and by {claim}{others}",
            f"choose another here or in `{written(other_path)}`, or leave it out and pdctl will choose one",
        )


def _sshd(cluster: Cluster, claims: Iterable[Claim]) -> Iterator[Finding]:
    """The daemon that lets pdctl in listens already; behind a jump host or a config its port is not known."""
    doors: dict[str, int] = {}
    for host in cluster.hosts:
        ssh = host.ssh or cluster.ssh
        if ssh.connection == "ssh" and ssh.config is None:
            doors[host.name] = ssh.port or SSH
    for claim in claims:
        if (door := doors.get(claim.host)) is not None and door in claim.ports:
            yield Finding(
                "PORT007",
                claim.path,
                f"port {door} on {claim.host} is that of ssh, and used by {claim}",
                "choose another port",
            )


def _ranges(claims: Iterable[Claim]) -> Iterator[Finding]:
    """One finding for each field, however many instances take their ports from it."""
    found: dict[tuple[str, Path], list[tuple[Claim, int]]] = {}
    for claim in claims:
        for port in (min(claim.ports), max(claim.ports)) if len(claim.ports) > 1 else claim.ports:
            if port > LAST:
                found.setdefault(("PORT001", claim.path), []).append((claim, port))
            elif port in EPHEMERAL:
                found.setdefault(("PORT005", claim.path), []).append((claim, port))
            elif port < FIRST_UNPRIVILEGED:
                found.setdefault(("PORT006", claim.path), []).append((claim, port))
    for (rule, path), rows in found.items():
        ports = [port for _, port in rows]
        owners = ", ".join(_few([str(claim) for claim, _ in rows]))
        why, hint = REASONS[rule]
        yield Finding(rule, path, f"{_numbers(ports)} of {owners} {_is(ports)} {why}", hint)


REASONS = {
    "PORT001": (f"beyond {LAST}", "lower its base"),
    "PORT005": (
        f"in {EPHEMERAL.start}-{EPHEMERAL.stop - 1}, which Linux gives to outgoing connections",
        f"choose ports below {EPHEMERAL.start}",
    ),
    "PORT006": (
        f"below {FIRST_UNPRIVILEGED}, where only root may listen",
        f"choose ports from {FIRST_UNPRIVILEGED} on",
    ),
}


def _numbers(ports: Sequence[int]) -> str:
    distinct = sorted(set(ports))
    return f"port{'s' if len(distinct) > 1 else ''} {', '.join(_few([str(port) for port in distinct]))}"


def _is(ports: Sequence[int]) -> str:
    return "are" if len(set(ports)) > 1 else "is"


def _few(words: Sequence[str]) -> list[str]:
    distinct = list(dict.fromkeys(words))
    more = len(distinct) - MOST_NAMED
    return distinct if more <= 0 else [*distinct[:MOST_NAMED], f"and {more} more"]
