"""The ports of each instance.

Bases reproduce the article's numbers; an instance's ports depend only on its role and its slot on the
host, never on how many others there are.
"""

from __future__ import annotations

from pdctl.knowledge.versions import SIDE_CHANNEL_PER_INSTANCE, at_least
from pdctl.spec.finding import Finding, Path
from pdctl.spec.model import Cluster
from pdctl.spec.serving import InstancePorts
from pdctl.topology.model import Ports, Role
from pdctl.topology.placement import POOL_FIELD, Placed

# Within one base, decoders begin this far above prefillers: more than 64 GPUs' worth of rank ports.
DECODER_OFFSET = {"side_channel": 100, "internal_api": 200, "engine": 4096}
# Ports set aside per instance for vLLM's own sockets: it takes the next free one from VLLM_PORT upward.
ENGINE_BLOCK = 64


def instance_ports(cluster: Cluster, pins: dict[str, str], item: Placed, tensor_parallel: int) -> Ports:
    """The ports of one instance; pinned ones win."""
    base, tp, slot = cluster.serving.ports, tensor_parallel, item.slot
    pinned = item.pinned.ports if item.pinned else InstancePorts.model_validate({})
    late = item.role is Role.DECODER
    lmcache = cluster.serving.mode == "disaggregated" and cluster.serving.connector == "lmcache"
    nixl = cluster.serving.mode == "disaggregated" and cluster.serving.connector == "nixl"
    ranks = range(tp)

    def block(first: int, kind: str, size: int) -> tuple[int, ...]:
        start = first + (DECODER_OFFSET[kind] if late else 0) + slot * size
        return tuple(range(start, start + size))

    side_size = 1 if side_channel_per_instance(pins) else tp
    return Ports(
        http=pinned.http or getattr(base, item.role.value) + slot,
        side_channel=tuple(pinned.side_channel or block(base.side_channel, "side_channel", side_size))
        if nixl
        else (),
        init=tuple(pinned.init or (base.init + slot * tp + r for r in ranks)) if lmcache and late else (),
        alloc=tuple(pinned.alloc or (base.alloc + slot * tp + r for r in ranks)) if lmcache and late else (),
        internal_api=block(base.internal_api, "internal_api", 1 + tp) if lmcache else (),
        engine=_engine_block(base.engine, late, slot),
    )


def side_channel_per_instance(pins: dict[str, str]) -> bool:
    return at_least(pins["vllm"], SIDE_CHANNEL_PER_INSTANCE)


def _engine_block(base: int, late: bool, slot: int) -> range:
    first = base + (DECODER_OFFSET["engine"] if late else 0) + slot * ENGINE_BLOCK
    return range(first, first + ENGINE_BLOCK)


def list_lengths(item: Placed, ports: Ports, tensor_parallel: int, per_instance: bool) -> list[Finding]:
    """Pinned lists must hold what the engine opens.

    LMCache indexes init and alloc by TP rank (pd_backend.py). vLLM takes one side channel, or with versions
    before `SIDE_CHANNEL_PER_INSTANCE` one per rank, counting up from the first.
    """
    path: Path = ("serving", POOL_FIELD[item.role], "placement", item.index, "ports")
    side = 1 if per_instance else tensor_parallel
    wanted = {"init": tensor_parallel, "alloc": tensor_parallel, "side_channel": side}
    errors = [
        Finding(
            "PORT002",
            (*path, name),
            f"tensor_parallel {tensor_parallel} needs {count} {name} port{'s' if count > 1 else ''},"
            f" got {len(getattr(ports, name))}",
            f"list {count}, or leave `{name}` out",
        )
        for name, count in wanted.items()
        if getattr(ports, name) and len(getattr(ports, name)) != count
    ]
    first = ports.side_channel[:1]
    if not errors and first and ports.side_channel != tuple(range(first[0], first[0] + side)):
        errors.append(
            Finding(
                "PORT004",
                (*path, "side_channel"),
                f"vLLM opens {side} side channels from {first[0]} upward, not {list(ports.side_channel)}",
                "list consecutive ports, or leave `side_channel` out",
            )
        )
    return errors
