"""Steps -> the same, saying what they cut off: what a proxy that ends, or cannot be told, still asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pdctl.plan.front import Front
from pdctl.plan.model import Step, StepKind
from pdctl.plan.rollout import some
from pdctl.plan.work import Work
from pdctl.state import Key


def with_losses(work: Work, door: Front, found: Iterable[Step]) -> Iterator[Step]:
    for step in found:
        outage = step.outage or _farewell(work, door, step) or _undrained(work, door, step)
        yield replace(step, outage=outage)


def _farewell(work: Work, door: Front, step: Step) -> str:
    """The proxy goes to another host: it has another address, and no client learns that from the old one."""
    gone = [key.host for key in _ending(work, step) if key.id == door.key.id and key.host != door.key.host]
    if not gone:
        return ""
    url, lost = work.topology.proxy.url, f"the proxy on {some(gone)} ends, with what it works on"
    if step.kind is StepKind.STOP and not door.runs:
        return f"no request is taken until the proxy on {door.key.host} is up, at {url}: {lost}"
    return f"clients have to use {url} by then: {lost}"


def _undrained(work: Work, door: Front, step: Step) -> str:
    """Engines that end although the proxy that asks them goes on asking."""
    names = some([work.instance(key) for key in _ending(work, step) if key.id != door.key.id])
    if not names or door.listens:
        return ""
    if door.former:
        return (
            f"{names} may be asked until the proxy on {door.key.host} is up, and not drained: requests fail"
        )
    if not door.seen:
        return f"{door.key.host} with the proxy was left out: {names} cannot be drained, requests fail"
    return f"the proxy cannot be told to drain {names}: requests fail" if door.runs else ""


def _ending(work: Work, step: Step) -> list[Key]:
    """Running units that the step ends or restarts."""
    if step.kind is StepKind.STOP:
        return [key for key in step.keys if work.runs(key)]
    going = {c.key for c in work.gone} if step.kind is StepKind.DELETE else work.restarted.keys()
    some_end = step.kind in (StepKind.UNITS, StepKind.DELETE)
    return [key for key in step.keys if some_end and key in going and work.runs(key)]
