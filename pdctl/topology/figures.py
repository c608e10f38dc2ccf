"""Topology -> the sizes that follow from its model, by role: what `validate` tells."""

from __future__ import annotations

from dataclasses import dataclass

from pdctl.topology.known import Known, known
from pdctl.topology.kv import in_flight_tokens
from pdctl.topology.memory import GIB, Load, loads
from pdctl.topology.model import Role, Topology
from pdctl.topology.placement import POOL_FIELD
from pdctl.topology.suits import copies
from pdctl.topology.transfer import Flow, flows


@dataclass(frozen=True)
class RoleFigures:
    """Of one GPU of a role, in bytes; None where it is not known or does not apply."""

    role: str
    tensor_parallel: int
    kv_copies: int  # ranks that hold the same KV
    gpu_memory_utilization: float
    memory_bytes: int | None
    weight_bytes: int | None
    kv_bytes_per_token: int
    chunk_bytes: int | None
    buffer_bytes: int | None
    kv_tokens: int | None  # that fit, of all requests together
    in_flight_tokens: int | None  # of prompts in a decoder's buffer at once


@dataclass(frozen=True)
class Figures:
    source: str  # of what is known of the model
    layers: int
    kv_heads: int
    head_dim: int
    bytes_per_value: int
    mla: bool
    roles: tuple[RoleFigures, ...]
    flows: tuple[Flow, ...]


def figures(topology: Topology) -> Figures | None:
    """None where the model's shape is not known."""
    spec = topology.spec
    found = known(spec, topology.files)
    shape = found.shape
    if shape is None:
        return None
    rows = loads(spec, found, topology.kv, topology.pins, topology.instances)
    return Figures(
        source="model.kv" if spec.model.kv else found.source,
        layers=shape.layers,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        bytes_per_value=shape.bytes_per_value,
        mla=shape.mla,
        roles=tuple(_role(topology, found, row) for row in rows),
        flows=tuple(flows(spec, found, topology.instances)),
    )


def lines(topology: Topology) -> list[str]:
    """The same for people, a line for each role and for the slowest way over the network."""
    found = figures(topology)
    if found is None:
        return []
    heads = "one latent vector" if found.mla else f"{found.kv_heads} KV heads"
    text = [
        f"model: {found.layers} layers with KV, {heads} of {found.head_dim} values in"
        f" {found.bytes_per_value} bytes ({found.source})"
    ]
    text += [_line(row) for row in found.roles]
    if found.flows:
        worst = max(found.flows, key=lambda flow: flow.ratio)
        text.append(
            f"network: at most {worst.ratio:.0%} of what it carries {worst.way} {worst.host} while all"
            " prefillers work"
        )
    return text


def _role(topology: Topology, found: Known, load: Load) -> RoleFigures:
    kv = topology.kv if load.buffer else None
    decoder = load.role is Role.DECODER
    return RoleFigures(
        role=POOL_FIELD[load.role],
        tensor_parallel=load.tensor_parallel,
        kv_copies=copies(found.facts, load.tensor_parallel) if found.facts else 1,
        gpu_memory_utilization=load.utilization,
        memory_bytes=int(load.memory) or None,
        weight_bytes=int(load.weights) or None,
        kv_bytes_per_token=load.bytes_per_token,
        chunk_bytes=kv.chunk_bytes if kv else None,
        buffer_bytes=load.buffer or None,
        kv_tokens=load.tokens,
        in_flight_tokens=in_flight_tokens(kv) if kv and decoder else None,
    )


def _line(row: RoleFigures) -> str:
    parts = []
    if row.weight_bytes:
        parts.append(f"weights {row.weight_bytes / GIB:.1f} GiB")
    held = f", held by {row.kv_copies} ranks alike" if row.kv_copies > 1 else ""
    parts.append(f"KV {row.kv_bytes_per_token} bytes a token{held}")
    if row.buffer_bytes:
        parts.append(f"buffer {row.buffer_bytes / GIB:.1f} GiB")
    if row.kv_tokens is not None:
        share = f"gpu_memory_utilization {row.gpu_memory_utilization:g}"
        parts.append(f"room for about {row.kv_tokens} tokens of KV ({share})")
    return f"{row.role}, each GPU: " + ", ".join(parts)
