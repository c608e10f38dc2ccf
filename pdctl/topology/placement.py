"""Which host and which GPUs each instance gets.

Prefillers and servers take GPUs from the first host's lowest index upward, decoders from the last host's
highest index downward, so that one more or one less instance of either role moves no other. Without GPUs
(CPU engine, simulator) instances go round the hosts, prefillers from the first, decoders from the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdctl.spec.finding import Finding, Path
from pdctl.spec.model import Cluster, Host
from pdctl.spec.serving import Place, Pool
from pdctl.topology.model import Role

POOL_FIELD = {Role.PREFILLER: "prefillers", Role.DECODER: "decoders", Role.SERVER: "instances"}


@dataclass(frozen=True)
class Placed:
    """One instance on its host; `slot` counts the role's instances on that host."""

    role: Role
    index: int
    slot: int
    host: str
    gpus: tuple[int, ...]
    pinned: Place | None


def pool_path(role: Role) -> Path:
    return ("serving", POOL_FIELD[role])


def pools(cluster: Cluster) -> list[tuple[Role, Pool]]:
    """The roles that this cluster runs, with their pools."""
    found = [(role, getattr(cluster.serving, field)) for role, field in POOL_FIELD.items()]
    return [(role, pool) for role, pool in found if pool is not None]


def place(cluster: Cluster) -> tuple[list[Placed], list[Finding]]:
    """Place every pool; errors name the field, both claims on a GPU, and what would fit."""
    placed: list[Placed] = []
    errors: list[Finding] = []
    for role, pool in pools(cluster):
        more, problems = _place_pool(cluster, role, pool)
        placed += more
        errors += problems
    return placed, errors + _overlaps(cluster, placed)


def _place_pool(cluster: Cluster, role: Role, pool: Pool) -> tuple[list[Placed], list[Finding]]:
    where = pool_path(role)
    hosts = _candidates(cluster, pool)
    if not hosts:
        return [], [
            Finding("PLACE004", where, "no host is left to place it on", "check `hosts` and `labels`")
        ]
    if role is Role.DECODER:
        hosts = hosts[::-1]
    if pool.placement is not None:
        return _as_asked(cluster, role, pool)
    if not uses_gpus(cluster):
        return _round(role, pool, hosts), []
    slots = [(host.name, gpus) for host in hosts for gpus in _gpu_groups(host, pool.tensor_parallel, role)]
    if pool.count > len(slots):
        return [], [_too_many(where, pool, hosts, len(slots))]
    return _number(role, slots[: pool.count]), []


def uses_gpus(cluster: Cluster) -> bool:
    return cluster.engine.kind == "vllm" and cluster.engine.device == "cuda"


def _candidates(cluster: Cluster, pool: Pool) -> list[Host]:
    by_name = {host.name: host for host in cluster.hosts}
    named = [by_name[name] for name in pool.hosts if name in by_name] if pool.hosts else list(cluster.hosts)
    return [host for host in named if pool.labels.items() <= host.labels.items()]


def _gpu_groups(host: Host, tensor_parallel: int, role: Role) -> list[tuple[int, ...]]:
    groups = [
        tuple(range(first, first + tensor_parallel))
        for first in range(0, host.gpus.count - tensor_parallel + 1, tensor_parallel)
    ]
    if role is not Role.DECODER:
        return groups
    top = host.gpus.count
    return [tuple(top - tensor_parallel - first + k for k in range(tensor_parallel)) for first, *_ in groups]


def _round(role: Role, pool: Pool, hosts: Sequence[Host]) -> list[Placed]:
    return _number(role, [(hosts[i % len(hosts)].name, ()) for i in range(pool.count)])


def _as_asked(cluster: Cluster, role: Role, pool: Pool) -> tuple[list[Placed], list[Finding]]:
    places = pool.placement or []
    by_name = {host.name: host for host in cluster.hosts}
    rows: list[tuple[str, tuple[int, ...]]] = []
    free: dict[str, list[tuple[int, ...]]] = {}
    full: set[str] = set()
    errors: list[Finding] = []
    for i, entry in enumerate(places):
        where = (*pool_path(role), "placement", i)
        if entry.gpus is not None or not uses_gpus(cluster):
            rows.append((entry.host, tuple(entry.gpus or ())))
            continue
        taken = {gpu for host, gpus in rows if host == entry.host for gpu in gpus}
        groups = free.setdefault(entry.host, _gpu_groups(by_name[entry.host], pool.tensor_parallel, role))
        group = next((g for g in groups if not taken & set(g)), None)
        if group is None:
            if entry.host not in full:  # told once for each host
                errors.append(_too_many(where, pool, [by_name[entry.host]], len(groups)))
            full.add(entry.host)
        else:
            rows.append((entry.host, group))
    return _number(role, rows, places) if not errors else [], errors


def _number(
    role: Role, rows: Sequence[tuple[str, tuple[int, ...]]], pinned: Sequence[Place] = ()
) -> list[Placed]:
    seen: dict[str, int] = {}
    placed = []
    for index, (host, gpus) in enumerate(rows):
        slot = seen.get(host, 0)
        seen[host] = slot + 1
        placed.append(Placed(role, index, slot, host, gpus, pinned[index] if pinned else None))
    return placed


def _too_many(where: Path, pool: Pool, hosts: Sequence[Host], fit: int) -> Finding:
    have = ", ".join(f"{host.name} has {host.gpus.count}" for host in hosts[:5])
    more = f" and {len(hosts) - 5} more hosts" if len(hosts) > 5 else ""
    return Finding(
        "GPU006",
        where,
        f"{pool.count} x tensor_parallel {pool.tensor_parallel} needs"
        f" {pool.count * pool.tensor_parallel} GPUs; {fit} instances fit ({have}{more})",
        "lower count or tensor_parallel, or add hosts or GPUs",
    )


def _overlaps(cluster: Cluster, placed: Sequence[Placed]) -> list[Finding]:
    owner: dict[tuple[str, int], Placed] = {}
    clashes: dict[tuple[str, str], tuple[Placed, list[int]]] = {}
    for item in placed:
        for gpu in item.gpus:
            first = owner.setdefault((item.host, gpu), item)
            if first is not item:
                clashes.setdefault((name_of(first), name_of(item)), (item, []))[1].append(gpu)
    counts = {host.name: host.gpus.count for host in cluster.hosts}
    return [
        Finding(
            "GPU005",
            _claimed_at(item),
            f"GPU {', '.join(map(str, gpus))} of {item.host} is claimed by {first} and {second}"
            f" (the host has {counts[item.host]} GPUs)",
            "lower a count or tensor_parallel, or place one of them on another host",
        )
        for (first, second), (item, gpus) in clashes.items()
    ]


def _claimed_at(item: Placed) -> Path:
    """The field that decides its GPUs."""
    pinned = item.pinned is not None and item.pinned.gpus is not None
    return (*pool_path(item.role), "placement", item.index, "gpus") if pinned else pool_path(item.role)


def name_of(item: Placed) -> str:
    return f"{item.role.value}-{item.index}"
