"""Two specs and the plan between them: hosts hold what the old one asks for, the new one is to be applied."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pdctl.desired import desire
from pdctl.plan import Plan, make_plan
from pdctl.plan.reasons import Ground, Reasons, find_reasons
from pdctl.spec.load import Reading, examine
from pdctl.state import File, Key, Resource, State, Unit
from pdctl.topology import Topology, resolve

SPEC = """\
cluster: chat
hosts:
  - {name: h1, address: 198.18.0.10}
  - {name: h2, address: 198.18.0.11}
engine: simulator
model: {id: pdctl/tiny, served_name: tiny}
serving:
  prefillers:
    count: 2
  decoders:
    count: 2
    max_num_seqs: 64
    env: {NCCL_DEBUG: WARN}
  lmcache: {chunk_size: 32}
"""


@dataclass(frozen=True)
class Edit:
    """The new spec and what follows from it."""

    reading: Reading
    topology: Topology
    desired: State
    observed: State
    plan: Plan
    reasons: Reasons

    def why(self, end: str) -> list[str]:
        """The reasons of the one change or restart whose id ends so."""
        [found] = [reasons for key, reasons in self.reasons.by_key.items() if key.id.endswith(end)]
        return [reason.text for reason in found]


def edit(*pairs: tuple[str, str], spec: str = SPEC, earlier: str | None = SPEC, version: str = "0.2") -> Edit:
    """`spec` is applied; then each first text of `pairs` in it becomes the second."""
    new = spec
    for before, after in pairs:
        assert before in new, before
        new = new.replace(before, after, 1)
    reading = examine(new, "cluster.yaml")
    topology, desired = resolve(reading.cluster), desire(resolve(reading.cluster))
    observed = running(desire(resolve(examine(spec, "old").cluster)))
    contents = {key: row.content for key, row in observed.items() if isinstance(row, File) and row.content}
    plan = make_plan(topology, desired, observed, observed, contents=contents)
    by = dict.fromkeys(topology.hosts, "0.2")
    ground = Ground(topology, reading, desired, earlier=earlier, applied_by=by, version=version)
    return Edit(reading, topology, desired, observed, plan, find_reasons(plan, ground))


def running(state: State) -> dict[Key, Resource]:
    """The same on the hosts, every unit in its first run."""
    return {
        key: replace(row, invocation="i1") if isinstance(row, Unit) else row for key, row in state.items()
    }
