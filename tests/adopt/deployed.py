"""A topology as its hosts would show it once it runs: what `pdctl adopt` is given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pdctl.adopt.observed import Answer, Facts, Gpu, Process, Seen
from pdctl.desired import desire
from pdctl.knowledge.adoption import NVIDIA_NAMES
from pdctl.state import File, Package, Resource, Unit
from pdctl.topology.model import Topology

TOLD = {name: told for told, name in NVIDIA_NAMES.items()}
WHEELS = ("vllm", "lmcache", "nixl", "torch", "python")


def deployed(topology: Topology) -> list[Seen]:
    """Every host with the processes of its units, as rendered by pdctl."""
    state = desire(topology)
    rows: dict[str, list[Resource]] = {name: [] for name in topology.hosts}
    for key, resource in state.items():
        rows[key.host].append(resource)
    return [_seen(topology, name, rows[name]) for name in topology.hosts]


def process(argv: list[str], **more: Any) -> Process:
    """A process with nothing around it."""
    return Process(**({"pid": 100, "kind": "engine", "argv": tuple(argv)} | more))


def seen(*processes: Process, name: str = "h1", address: str = "10.0.0.1", **answer: Any) -> Seen:
    gpus = tuple(Gpu(i, f"GPU-{i}a{i}b", "NVIDIA H100 80GB HBM3", "580.95.05") for i in range(8))
    facts = answer.pop("facts", Facts(name, "ubuntu", "22.04", gpus))
    addresses = answer.pop("addresses", (("eth0", address),))
    return Seen(name, address, Answer(facts, addresses=addresses, processes=tuple(processes), **answer))


def _seen(topology: Topology, name: str, rows: list[Resource]) -> Seen:
    peer = topology.hosts[name]
    host = next(host for host in topology.spec.hosts if host.name == name)
    told = TOLD.get(host.gpus.model or "", "NVIDIA Something")
    gpus = tuple(Gpu(index, f"GPU-{name}-{index}", told) for index in range(peer.gpus))
    system, _, version = peer.os.partition("-")
    files = {r.path: r.content.decode() for r in rows if isinstance(r, File) and r.content is not None}
    ssh = topology.spec.ssh.model_dump(exclude_defaults=True)
    answer = Answer(
        Facts(name, system, version, gpus),
        addresses=(("eth0", peer.private),),
        packages={r.name: r.version for r in rows if isinstance(r, Package) and r.version},
        processes=tuple(_process(topology, unit, files) for unit in rows if isinstance(unit, Unit)),
    )
    return Seen(name, peer.address, answer, ssh)


def _process(topology: Topology, unit: Unit, files: Mapping[str, str]) -> Process:
    engine = topology.spec.engine
    versions = {name: topology.pins[name] for name in WHEELS if name in topology.pins}
    if engine.device == "cpu" and engine.kind == "vllm":
        versions["vllm"] += "+cpu"
    return Process(
        pid=sum(unit.name.encode()),
        kind="proxy" if unit.role == "proxy" else "engine",
        argv=unit.argv,
        environment=dict(unit.environment),
        secrets=unit.secret_names,
        unit=unit.name,
        versions={} if engine.kind == "simulator" or unit.role == "proxy" else versions,
        files=files,
        models=_models(topology),
    )


def _models(topology: Topology) -> dict[str, str]:
    """The config.json that lies beside the weights."""
    kv, model = topology.spec.model.kv, topology.spec.model
    if kv is None:
        return {}
    config = {
        "num_hidden_layers": kv.layers,
        "num_key_value_heads": kv.kv_heads,
        "num_attention_heads": kv.kv_heads * 2,
        "head_dim": kv.head_dim,
        "torch_dtype": {4: "float32", 2: "bfloat16"}[kv.bytes_per_value],
    }
    return {model.path or model.id: json.dumps(config)}
