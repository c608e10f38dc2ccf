"""Selection x changed fields -> an error, where a part of the engines would no longer fit the others."""

from __future__ import annotations

from pdctl.errors import ApplyError
from pdctl.plan.belonging import instance_of_key
from pdctl.plan.reasons import Reason, Reasons
from pdctl.plan.targets import Selection, World
from pdctl.state import Unit
from pdctl.topology.model import Role

# What prefillers and decoders have in common: the model whose KV they exchange, and how. LMCache's cache keys
# hold model, chunk size and hash (LMCache 0.5.6 token_database.py); NIXL's handshake compares the shape of
# the KV (vLLM 0.32.0 nixl connector).
COMMON = (
    "model.id",
    "model.path",
    "model.revision",
    "model.dtype",
    "model.kv",
    "engine.kind",
    "engine.device",
    "serving.mode",
    "serving.connector",
    "serving.lmcache.chunk_size",
    "serving.lmcache.hash_seed",
    "serving.prefillers.tensor_parallel",
    "serving.decoders.tensor_parallel",
)


def refuse_split(cluster: str, selection: Selection, world: World, reasons: Reasons) -> None:
    """Raises ApplyError when a field that all engines share changes on some of them only."""
    engines = {k: u for k, u in world.desired.items() if isinstance(u, Unit) and u.role != Role.PROXY}
    left = [unit.instance for key, unit in sorted(engines.items()) if key not in selection.keys]
    # New files under an engine that goes on are its next start's.
    taken = sorted({instance_of_key(cluster, key) for key in selection.keys} - {"", Role.PROXY.value})
    common = [reason for reason in reasons.fields if is_common(reason)]
    if common and left and taken:
        follow = f"{left[0]} would not follow {taken[0]}"
        alone = f"only the files of {taken[0]} would change, not what it runs with"
        raise ApplyError(
            f"{common[0].text}: prefillers and decoders must agree on it, and "
            + (alone if taken[0] in left else follow),
            where=common[0].where,
            hint="apply without targets",
        )


def is_common(reason: Reason) -> bool:
    return any(reason.field == name or reason.field.startswith(f"{name}.") for name in COMMON)
