"""The weights of a model on a host with engines: fetched once, or a folder that somebody else fills."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.desired.engine import downloads, pool_of
from pdctl.desired.layout import DOWNLOADS, SERVICE_USER
from pdctl.knowledge.hub import ELSEWHERE_FLAGS, ELSEWHERE_VARIABLES, PASSED_ON
from pdctl.state import Venv, Weights
from pdctl.topology.model import Instance, Topology

# Where huggingface_hub keeps its cache below HF_HOME (huggingface_hub constants.py).
HUB_CACHE = f"{DOWNLOADS}/hub"


def weights(topology: Topology, instances: list[Instance], venv: Venv, secrets: str) -> Iterator[Weights]:
    """Nothing where engines look for them in another place, or read a format that no folder of files is."""
    model = topology.spec.model
    if topology.spec.engine.kind != "vllm" or _elsewhere(topology, instances):
        return
    if model.path:
        yield Weights(model.path, model.revision or "main", repo=model.id, given=True)
    elif downloads(topology):
        yield Weights(
            f"{HUB_CACHE}/models--{model.id.replace('/', '--')}",
            model.revision or "main",
            repo=model.id,
            offline=topology.spec.offline,
            tool=venv.path,
            owner=SERVICE_USER,
            environment=(("HF_HOME", DOWNLOADS), *_passed_on(topology, instances)),
            secrets=secrets,
        )


def _elsewhere(topology: Topology, instances: list[Instance]) -> bool:
    pools = [pool_of(topology, role) for role in {instance.role for instance in instances}]
    words = {word.split("=")[0] for pool in pools for word in pool.extra_args}
    return bool(words & ELSEWHERE_FLAGS or any(pool.env.keys() & ELSEWHERE_VARIABLES for pool in pools))


def _passed_on(topology: Topology, instances: list[Instance]) -> tuple[tuple[str, str], ...]:
    """The way to the Hub is the engines' own."""
    found: dict[str, str] = {}
    for role in sorted({instance.role for instance in instances}):
        found |= {n: v for n, v in pool_of(topology, role).env.items() if n in PASSED_ON}
    return tuple(sorted(found.items()))
