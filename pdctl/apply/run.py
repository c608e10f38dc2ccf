"""Plan -> the hosts, through one Ansible run; then a second look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pdctl import __version__
from pdctl.apply.lock import Held
from pdctl.apply.look import Look, world_of
from pdctl.apply.playbook import APPLY, playbook_folder
from pdctl.apply.removal import removal_groups, removal_variables
from pdctl.apply.requests import Meta, Order, Supply, groups, host_variables, played
from pdctl.desired.layout import instance_of
from pdctl.errors import ApplyError, PdctlError, UnhealthyError, UnreachableError
from pdctl.hosts.ansible import Event, HostResult, ansible_host_vars, run_playbook
from pdctl.hosts.holder import who
from pdctl.hosts.reach import reach
from pdctl.plan.targets import narrowed
from pdctl.state import State
from pdctl.state.digest import object_digest
from pdctl.topology.leases import lease_s


@dataclass(frozen=True)
class Done:
    """What a run did on each host, the errors it ended with, and the step in which it stopped for them."""

    did: dict[str, tuple[str, ...]]
    errors: tuple[PdctlError, ...]
    stopped: str = ""


def run(seen: Look, supply: Supply, on_event: Callable[[Event], None], held: Held) -> Done:
    """Carry out the plan. Errors of single hosts are returned, so that the others are reported too."""
    variables = host_variables(order(seen, supply, held))
    with playbook_folder(played(seen.plan)) as folder:
        return _play(APPLY, seen, variables, groups(variables, seen.plan), on_event, folder)


def remove(seen: Look, on_event: Callable[[Event], None], held: Held) -> Done:
    """Take away everything that the records name; `seen` was made for an empty wish."""
    variables = removal_variables(order(seen, Supply({}, {}, {}, ""), held))
    return _play("destroy.yml", seen, variables, removal_groups(variables), on_event)


def _play(
    playbook: str,
    seen: Look,
    variables: dict[str, dict[str, Any]],
    members: dict[str, list[str]],
    on_event: Callable[[Event], None],
    folder: Path | None = None,
) -> Done:
    if not variables:
        return Done({}, ())
    hosts = sorted(variables)
    outcome = run_playbook(
        playbook,
        inventory(seen, variables, members),
        hosts=hosts,
        on_event=on_event,
        project_dir=folder,
    )
    failed = [result for result in outcome.hosts.values() if result.status != "ok"]
    return Done(
        {host: result.did for host, result in outcome.hosts.items()},
        tuple(_error(result, seen.topology.cluster) for result in failed),
        next((result.task for result in failed), ""),
    )


def inventory(
    seen: Look,
    variables: dict[str, dict[str, Any]],
    members: dict[str, list[str]],
    *,
    root: bool | None = None,
) -> dict[str, Any]:
    """An Ansible inventory: connection and request of each host, and a group for each step.

    `root` says whether the login is root; None asks ssh's own configuration.
    """
    spec = seen.topology.spec
    hosts = {
        host.name: ansible_host_vars(reach(spec, host, seen.folder), root=root) | variables[host.name]
        for host in spec.hosts
        if host.name in variables
    }
    children: dict[str, Any] = {
        name: {"hosts": {host: {} for host in some}} for name, some in members.items()
    }
    return {"all": {"hosts": hosts, "children": children}}


def order(seen: Look, supply: Supply, held: Held | None = None) -> Order:
    return Order(
        plan=seen.plan,
        desired=touched(seen),
        observed=seen.seen.state,
        meta=meta(seen),
        supply=supply,
        present=seen.seen.bundle,
        folder=seen.folder,
        lease_s=lease_s(seen.topology),
        apt=seen.topology.spec.apt.model_dump(),
        drain_timeout_s=seen.topology.spec.serving.rollout.drain_timeout_s,
        generation=held.number if held else 0,
        token=held.token if held else "",
        downgrades=seen.downgrades,
        reboot_timeout_s=seen.topology.spec.serving.rollout.reboot_timeout_s,
    )


def touched(seen: Look) -> State:
    """What is wanted, where targets leave a part of it; of the rest, what runs is wanted as it runs."""
    return narrowed(world_of(seen), seen.selection.keys).desired if seen.selection else seen.desired


def meta(seen: Look) -> Meta:
    """Who applies what, for the record."""
    return Meta(
        applied_at=datetime.now(UTC).isoformat(timespec="seconds"),
        by=who(),
        pdctl=__version__,
        spec_digest=object_digest(seen.topology.spec.model_dump(mode="json")),
    )


def _error(result: HostResult, cluster: str) -> PdctlError:
    """Units under the names of their instances, each with the end of its journal."""
    text = result.message
    for unit in result.journal:
        text = text.replace(unit, instance_of(cluster, unit))
    if result.status == "unreachable":
        return UnreachableError(text, where=result.host)
    if result.journal:
        tails = [_tail(instance_of(cluster, unit), lines) for unit, lines in result.journal.items()]
        return UnhealthyError(text + "".join(tails), where=result.host)
    return ApplyError(text, where=result.host)


def _tail(instance: str, lines: Sequence[str]) -> str:
    rows = "".join(f"\n      {line}" for line in lines)
    return f"\n    {instance}, the end of its journal:" + (rows or "\n      (it is empty)")
