"""Hosts that a plan reboots -> in which order and how many at once, so that others go on serving."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set

from pdctl.plan.batches import at_once
from pdctl.plan.front import Front
from pdctl.plan.model import Step, StepKind
from pdctl.plan.rollout import Group, Member, some
from pdctl.plan.work import Work
from pdctl.spec.serving import Rollout
from pdctl.state import Key, Unit
from pdctl.topology.model import Role


def serving(work: Work, door: Front, rolled: Set[Key]) -> tuple[str, ...]:
    """Rebooting hosts that have a part in what is served now: they go one after the other, in the rollout."""
    busy = {key.host for key in rolled} | ({door.key.host} if door.runs else set())
    return tuple(host for host in work.reboots.hosts if host in busy)


def idle_step(work: Work, later: Collection[str], outage: str) -> list[Step]:
    """The other hosts, all at once, before anything is started on them."""
    hosts = tuple(host for host in work.reboots.hosts if host not in later)
    return [reboot_step("reboot", hosts, _keys(work, hosts), outage)] if hosts else []


def reboot_step(name: str, hosts: tuple[str, ...], keys: tuple[Key, ...], outage: str = "") -> Step:
    return Step(name, f"Reboot {some(hosts)}", keys, StepKind.REBOOT, outage=outage, hosts=hosts)


def groups(
    work: Work, door: Front, members: Sequence[Member], hosts: Sequence[str], rollout: Rollout
) -> list[Group]:
    """Hosts that reboot at the same time, in order; that of the proxy is alone and the last.

    At first those after which a pair of the new side can serve while one of the old side still does.
    """
    by_host: dict[str, list[Member]] = {host: [] for host in hosts}
    for member in members:
        if member.key.host in by_host and member.rolls:
            by_host[member.key.host].append(member)
    front = door.key.host if door.runs else ""
    first = _first_pair({h: some for h, some in by_host.items() if h != front}, members)
    rest = [host for host in hosts if host not in first and host != front]
    total = Counter(member.role for member in members if not member.unseen)
    canaries = max(0, rollout.canary - len(first))
    parts: list[tuple[str, ...]] = [(host,) for host in (*first, *rest[:canaries])]
    parts += _packed(rest[canaries:], by_host, {role: _most(rollout, n) for role, n in total.items()})
    parts += [(front,)] if front in by_host else []
    return [_group(work, part, by_host, front) for part in parts]


def _group(work: Work, part: tuple[str, ...], by_host: Mapping[str, list[Member]], front: str) -> Group:
    names = tuple(member.name for host in part for member in by_host[host])
    return Group(part, names, _keys(work, part), front in part)


def _keys(work: Work, hosts: Collection[str]) -> tuple[Key, ...]:
    """What such a step does: packages that wait for it, and units that stop for it."""
    packages = [key for key in work.reboots.later if key.host in hosts]
    units = [key for key, row in work.observed.items() if key in work.units and isinstance(row, Unit)]
    return (*sorted(packages), *sorted(key for key in units if key.host in hosts))


def _first_pair(by_host: Mapping[str, list[Member]], members: Sequence[Member]) -> tuple[str, ...]:
    """One or two hosts with a prefiller and a decoder, such that outside of them there is one of each too."""
    roles = {host: {member.role for member in some} for host, some in by_host.items()}
    both = (Role.PREFILLER, Role.DECODER)
    mine = [host for host, some in roles.items() if some & set(both)]
    pairs: list[tuple[str, ...]] = [(host,) for host in mine if roles[host] >= set(both)]
    for one in (host for host in mine if both[0] in roles[host]):
        pairs += [(one, two) for two in mine if two != one and both[1] in roles[two]][:8]
    for pair in pairs[:64]:
        left = {member.role for member in members if member.key.host not in pair and not member.unseen}
        if left >= set(both):
            return pair
    return ()


def _packed(
    hosts: Sequence[str], by_host: Mapping[str, list[Member]], most: Mapping[Role, int]
) -> Iterator[tuple[str, ...]]:
    """Together as long as no more of a role are away than may be."""
    part: list[str] = []
    away: Counter[Role] = Counter()
    for host in hosts:
        more = Counter(member.role for member in by_host[host])
        if part and any(away[role] + count > most[role] for role, count in more.items()):
            yield tuple(part)
            part, away = [], Counter()
        part.append(host)
        away += more
    if part:
        yield tuple(part)


def _most(rollout: Rollout, total: int) -> int:
    return max(1, min(at_once(rollout, total), total - 1))
