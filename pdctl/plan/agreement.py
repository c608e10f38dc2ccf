"""Selection x changed fields -> an error, where a part of the engines would no longer fit the others."""

from __future__ import annotations

from pdctl.errors import ApplyError
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


def refuse_split(selection: Selection, world: World, reasons: Reasons) -> None:
    """Raises ApplyError when a field that all engines share changes on some of them only."""
    engines = {k: u for k, u in world.desired.items() if isinstance(u, Unit) and u.role != Role.PROXY}
    left = [unit.instance for key, unit in sorted(engines.items()) if key not in selection.keys]
    taken = [unit.instance for key, unit in sorted(engines.items()) if key in selection.keys]
    common = [reason for reason in reasons.fields if _is_common(reason)]
    if common and left and taken:
        raise ApplyError(
            f"{common[0].text}: prefillers and decoders must agree on it, and {left[0]} would not follow"
            f" {taken[0]}",
            where=common[0].where,
            hint="apply without targets",
        )


def _is_common(reason: Reason) -> bool:
    return any(reason.field == name or reason.field.startswith(f"{name}.") for name in COMMON)
