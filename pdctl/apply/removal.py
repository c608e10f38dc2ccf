"""A plan that wants nothing -> the host variables of playbooks/destroy.yml. Pure."""

from __future__ import annotations

from typing import Any

from pdctl.apply.requests import Order, by_host, encoded
from pdctl.plan.removal import REST, removal_steps


def removal_variables(order: Order) -> dict[str, dict[str, Any]]:
    """Units by role first, so that the proxy goes before what it fronts; then everything recorded."""
    found: dict[str, dict[str, Any]] = {change.key.host: {} for change in order.plan.changes}
    for step in removal_steps(order.plan, order.observed):
        for host, keys in by_host(step).items() if step.name != REST else ():
            work = {"delete": [key.id for key in keys]}
            found[host][f"pdctl_{step.name}"] = encoded(order, work, f"Remove {step.name}")
    for variables in found.values():
        variables["pdctl_delete"] = encoded(order, {"everything": True}, "Remove the rest")
    return found


def removal_groups(variables: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    names = sorted({name for per_host in variables.values() for name in per_host})
    return {name: sorted(host for host, per_host in variables.items() if name in per_host) for name in names}
