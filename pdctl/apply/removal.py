"""A plan that wants nothing -> the host variables of playbooks/destroy.yml. Pure."""

from __future__ import annotations

from typing import Any

from pdctl.apply.requests import Order, encoded
from pdctl.desired.layout import instance_of
from pdctl.state import Key, Unit
from pdctl.topology.model import START_ORDER


def removal_variables(order: Order) -> dict[str, dict[str, Any]]:
    """Units by role first, so that the proxy goes before what it fronts; then everything recorded."""
    found: dict[str, dict[str, Any]] = {}
    for change in order.plan.changes:
        found.setdefault(change.key.host, {})
    units = _units(order)
    for host, variables in found.items():
        for role in START_ORDER:
            ids = [key.id for key in units.get(host, ()) if _role(order, key) == role]
            if ids:
                variables[f"pdctl_{role}"] = encoded(order, {"delete": ids}, f"Remove {role}")
        variables["pdctl_delete"] = encoded(order, {"everything": True}, "Remove the rest")
    return found


def removal_groups(variables: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    names = sorted({name for per_host in variables.values() for name in per_host})
    return {name: sorted(host for host, per_host in variables.items() if name in per_host) for name in names}


def _units(order: Order) -> dict[str, list[Key]]:
    """By host."""
    found: dict[str, list[Key]] = {}
    for key, resource in sorted(order.observed.items()):
        if isinstance(resource, Unit):
            found.setdefault(key.host, []).append(key)
    return found


def _role(order: Order, key: Key) -> str:
    """`unit:pdctl-chat-decoder-0.service` -> `decoder`: the record keeps no roles, the names do."""
    return instance_of(order.plan.cluster, key.id.removeprefix("unit:")).split("-")[0]
