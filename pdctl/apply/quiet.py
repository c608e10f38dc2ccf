"""A look -> another one once what is at work on the hosts is at its end.

Modules of a killed apply run on there until their work is done, and those of another cluster keep the host
for themselves: a plan made meanwhile would not hold, or would have to wait in the middle of a rollout.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from pdctl.apply.ages import age
from pdctl.apply.lock import Say, is_live
from pdctl.apply.look import Look
from pdctl.hosts.observation import Kept, OtherWork

PAUSE_S = 0.5
LIMIT_S = 900.0  # as long as modules wait for each other (playbooks/module_utils/pdctl_host_lock.py)

Seen = TypeVar("Seen")


def when_quiet(
    look: Callable[[], Seen],
    kept: Callable[[Seen], Mapping[str, Kept]],
    say: Say,
    concerns: Callable[[Seen], Collection[str]] | None = None,
) -> Seen:
    """Look again as long as somebody is at work on a host and nobody holds the lock who might be.

    Other clusters are waited for only on the hosts that it `concerns`; None: on all of them.
    """
    seen = look()
    deadline = time.monotonic() + LIMIT_S
    told: set[str] = set()
    while lines := _waits(kept(seen), concerns(seen) if concerns else kept(seen)):
        for key, line in lines.items():
            if key not in told:
                say(line)
        told |= lines.keys()
        if time.monotonic() >= deadline:
            break
        time.sleep(PAUSE_S)
        seen = look()
    return seen


def changed_hosts(seen: Look) -> set[str]:
    """Those on which the plan would do anything."""
    plan = seen.plan
    hosts = {change.key.host for change in plan.changes} | {restart.host for restart in plan.restarts}
    return hosts | {key.host for step in plan.steps for key in step.keys}


def _waits(found: Mapping[str, Kept], concerned: Collection[str]) -> dict[str, str]:
    """What is waited for, as a line each; by a name under which it is told once."""
    if is_live(found):
        return {}
    busy = sorted(host for host, kept in found.items() if kept.busy)
    words = "what an earlier apply has begun there is not at its end yet; waiting for it"
    lines = {"earlier": f"{', '.join(busy)}: {words}"} if busy else {}
    by_cluster: dict[str, dict[str, OtherWork]] = {}
    for host, kept in sorted(found.items()):
        for other in kept.others if host in concerned and not kept.busy else ():
            by_cluster.setdefault(other.cluster, {})[host] = other
    return lines | {f"cluster {name}": _other(hosts) for name, hosts in by_cluster.items()}


def _other(hosts: Mapping[str, OtherWork]) -> str:
    work = next(iter(hosts.values()))
    return (
        f"{', '.join(hosts)}: `{work.cluster}` is being changed there by {work.by} (`{work.command}`,"
        f" for {age(work.age_s)}); waiting for it, since a host takes one change at a time"
    )
