"""A plan that wants nothing -> how `pdctl destroy` goes about it, in the steps of playbooks/destroy.yml."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pdctl.plan.belonging import instance_of_key, role_of
from pdctl.plan.model import Action, Change, Plan, Step, StepKind
from pdctl.state import Key, State, Unit
from pdctl.topology.model import START_ORDER, Role, Topology

# The names of the playbook's plays; a test holds the two together.
TITLES = {
    Role.PROXY: "Remove the proxy",
    Role.PREFILLER: "Remove prefillers",
    Role.SERVER: "Remove servers",
    Role.DECODER: "Remove decoders",
}
REST = "delete"  # the name of the last step
REST_TITLE = "Remove everything else that was recorded"


def dismantled(topology: Topology, plan: Plan, observed: State) -> Plan:
    """What goes, why and in which order: it did not leave the spec, all of the cluster goes."""
    steps = tuple(_told(topology, plan, observed))
    return replace(plan, changes=tuple(map(_whole, plan.changes)), steps=steps)


def removal_steps(plan: Plan, observed: State) -> Iterator[Step]:
    """The proxy goes before what it fronts, units before what they are started from. Only hosts on which the
    plan has anything to do."""
    hosts = {change.key.host for change in plan.changes}
    units = [key for key, row in sorted(observed.items()) if isinstance(row, Unit) and key.host in hosts]
    for role in reversed(START_ORDER):
        keys = tuple(key for key in units if role_of(instance_of_key(plan.cluster, key)) == role)
        if keys:
            yield Step(role.value, TITLES[role], keys, StepKind.DELETE)
    rest = tuple(change.key for change in plan.changes if change.key not in units)
    if hosts:
        yield Step(REST, REST_TITLE, rest or tuple(units), StepKind.DELETE)


def _told(topology: Topology, plan: Plan, observed: State) -> Iterator[Step]:
    """The first step that ends what serves says so."""
    said = False
    for step in removal_steps(plan, observed):
        ends = not said and any(_runs(observed, key) for key in step.keys)
        said = said or ends
        yield replace(step, outage=_outage(topology, plan, step)) if ends else step


def _outage(topology: Topology, plan: Plan, step: Step) -> str:
    if step.name != Role.PROXY and topology.proxy.host in plan.unreachable:
        return f"{topology.proxy.host} with the proxy was left out: it goes on taking requests, which fail"
    return "no request is answered from then on"


def _runs(observed: State, key: Key) -> bool:
    row = observed.get(key)
    return isinstance(row, Unit) and row.active == "active"


def _whole(change: Change) -> Change:
    if change.action is Action.DELETE:
        word = "all of the cluster goes"
    else:
        word = "it is gone already" if change.observed is None else "it was there before pdctl, and stays"
    return replace(change, why=(word, *change.why[1:]))
