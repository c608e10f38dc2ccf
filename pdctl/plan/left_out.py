"""Hosts that were left out -> what their engines, which may serve all the while, mean for a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pdctl.desired.layout import config_dir, unit_name
from pdctl.errors import ApplyError
from pdctl.plan.agreement import is_common
from pdctl.plan.belonging import instance_of_key, role_of
from pdctl.plan.front import PAIRING, Front, entries, read_list
from pdctl.plan.model import Plan
from pdctl.plan.reasons import Reasons
from pdctl.plan.rollout import Member, some
from pdctl.plan.work import Work
from pdctl.state import File, Key, State
from pdctl.topology.model import Instance, Role, Topology


def unseen_members(work: Work, door: Front) -> Iterator[Member]:
    """Engines that are not touched and may serve. One that an earlier rollout left drained or apart does not,
    nor one for which the proxy is about to look at another address."""
    known = door.known - door.moved - door.drained - door.sides
    for each in work.unseen:
        key = Key(each.host, f"unit:{unit_name(work.topology.cluster, each.name)}")
        yield Member(each.name, each.role, key, known=each.name in known, unseen=True)


def refuse_left_out(
    topology: Topology, plan: Plan, desired: State, contents: Mapping[Key, bytes], reasons: Reasons
) -> None:
    """Raises ApplyError where what changes on some engines would no longer fit those on hosts left out, which
    the proxy goes on to ask. `contents` are files as they are on the hosts, where they are not as desired."""
    file = Key(topology.proxy.host, f"file:{config_dir(topology.cluster)}/proxy.json")
    want = desired.get(file)
    after = read_list(want.content if isinstance(want, File) else None)
    before = read_list(contents.get(file)) or after
    away = sorted(
        (i for i in topology.instances if i.host in plan.unreachable and i.name in entries(before)),
        key=lambda each: each.name,
    )
    taken = sorted(_touched(plan))
    if not away or not taken:
        return
    first = f"{away[0].name} on {away[0].host}"
    for reason in reasons.fields:
        if is_common(reason):
            clash = f"{reason.text}: prefillers and decoders must agree on it"
            raise _error(f"{clash}, and {first} would not follow {taken[0]}", away, plan, reason.where)
    for words in _clashes(before, after, away):
        raise _error(words, away, plan)


def _touched(plan: Plan) -> set[str]:
    """Engines that change."""
    names = {instance_of_key(plan.cluster, change.key) for change in plan.changes}
    names |= {restart.instance for restart in plan.restarts}
    return {name for name in names if name and role_of(name) != Role.PROXY}


def _clashes(before: Mapping[str, Any], after: Mapping[str, Any], away: Sequence[Instance]) -> Iterator[str]:
    """What the proxy would take the engines of `away` for by its new list, and they are not."""
    for name in PAIRING:
        if before.get(name) != after.get(name):
            change = f"{name} {before.get(name)} -> {after.get(name)}"
            yield f"{change} for all engines, and {away[0].name} on {away[0].host} would not follow"
    old, new = entries(before), entries(after)
    for each in away:
        had, gets = old[each.name], new.get(each.name, old[each.name])
        place = f"{each.name} on {each.host}"
        if had["url"] != gets["url"]:
            yield f"the proxy would look for {place} at {gets['url']}, and it may still be at {had['url']}"
        if gets.get("slots", 0) > had.get("slots", 0):
            yield (
                f"the proxy would give {place} more KV than it may have room for: {had.get('slots', 0)} ->"
                f" {gets['slots']} chunks"
            )


def _error(words: str, away: Sequence[Instance], plan: Plan, where: str | None = None) -> ApplyError:
    hosts = dict.fromkeys(each.host for each in away)
    why = "; ".join(dict.fromkeys(plan.unreachable[host] for host in hosts))
    names = some(sorted(each.name for each in away))
    return ApplyError(
        words,
        where=where,
        hint=f"bring {some(list(hosts))} back ({why}), or take {names} out of the spec until then",
    )
