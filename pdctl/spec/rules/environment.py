"""Rules on `env`: variables that pdctl sets itself, and those that would break a transfer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pdctl.knowledge.variables import (
    LIBRARY_PATHS,
    OFFLINE,
    OTHER_UCX,
    RESERVED,
    RESERVED_PREFIXES,
    UCX_CUDA,
    UCX_EVERYTHING,
    UCX_GPU_MEMORY,
    UCX_NET_DEVICES,
    UCX_NETWORK,
    UCX_TLS,
)
from pdctl.knowledge.vocabularies import ENCODINGS
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules.rule import pools
from pdctl.spec.secrecy import shown

LOOPBACK = "lo"
SEED = "PYTHONHASHSEED"


def pdctls_variables_are_left_alone(cluster: Cluster) -> Iterator[Finding]:
    given = [((*path, "env", name), name) for path, pool in pools(cluster) for name in pool.env]
    given += [(("secrets", name), name) for name in (*cluster.secrets,)]
    for path, name in given:
        use = reserved(name)
        if name == SEED and path[0] == "secrets":
            use = "use `serving.lmcache.hash_seed`"
        if name == ENCODINGS and cluster.model.vocabulary is not None:
            use = "`model.vocabulary` sets it: keep one of the two"
        if name in OFFLINE and cluster.offline:
            use = "`offline` sets it: keep one of the two"
        if use is not None:
            yield Finding("ENV001", path, f"`{name}` is pdctl's own", use, on_key=True)


def the_hash_seed_is_one(cluster: Cluster) -> Iterator[Finding]:
    """Chunk keys are hashed with it: another seed on one side, and a decoder finds nothing."""
    seed = cluster.serving.lmcache.hash_seed
    for path, pool in pools(cluster):
        own = pool.env.get(SEED, seed)
        if own != seed:
            yield Finding(
                "MATCH006",
                (*path, "env", SEED),
                f"{shown(own)} differs from `serving.lmcache.hash_seed`: {seed} on every instance",
                "set `serving.lmcache.hash_seed` and remove this",
            )


def caches_are_not_doubled(cluster: Cluster) -> Iterator[Finding]:
    for path, pool in pools(cluster):
        home = pool.env.get("HF_HOME", "")
        if home.rstrip("/").endswith("/hub"):
            yield Finding(
                "ENV002",
                (*path, "env", "HF_HOME"),
                "ends in `/hub`; Hugging Face appends `hub` itself",
                "name the folder above it",
            )


def one_ucx_is_loaded(cluster: Cluster) -> Iterator[Finding]:
    """The nixl wheel brings its own; a second one in the process hangs or crashes it."""
    if not _moves_gpu_memory(cluster):
        return
    for path, pool in pools(cluster):
        for name in LIBRARY_PATHS:
            for folder in re.split("[: ]", pool.env.get(name, "")):
                if re.search(OTHER_UCX, folder.lower()):
                    yield Finding(
                        "ENV004",
                        (*path, "env", name),
                        f"{shown(folder)} looks like another UCX than the one inside the nixl wheel",
                        "remove it: two in one process hang or crash it",
                    )


def ucx_sees_gpu_memory(cluster: Cluster) -> Iterator[Finding]:
    if not _moves_gpu_memory(cluster):
        return
    for path, pool in pools(cluster):
        text = pool.env.get(UCX_TLS, "")
        names = {name.split(":")[0] for name in text.removeprefix("^").split(",") if name}
        without = text.startswith("^")
        if without and names & {*UCX_GPU_MEMORY, *UCX_EVERYTHING}:
            what, mend = "excludes CUDA transports", f"exclude something else, or remove `{UCX_TLS}`"
        elif names and not without and not names & {*UCX_CUDA, *UCX_EVERYTHING}:
            what, mend = "names no CUDA transport", f"add `cuda_copy` and `cuda_ipc`, or remove `{UCX_TLS}`"
        else:
            continue
        yield Finding(
            "ENV005",
            (*path, "env", UCX_TLS),
            f"{shown(text)} {what}, so UCX does not recognise GPU memory",
            mend,
        )


def both_sides_have_a_network(cluster: Cluster) -> Iterator[Finding]:
    """A side without a list of its own takes any transport that the other one has."""
    serving = cluster.serving
    if len(cluster.hosts) < 2 or serving.prefillers is None or serving.decoders is None:
        return
    sides = {"prefillers": serving.prefillers, "decoders": serving.decoders}
    said = {name: pool.env.get(UCX_TLS, "") for name, pool in sides.items()}
    families = {name: _families(text) for name, text in said.items()}
    for name, pool in sides.items():
        devices = [each.split(":")[0] for each in pool.env.get(UCX_NET_DEVICES, "").split(",") if each]
        if devices and all(each == LOOPBACK for each in devices):
            yield Finding(
                "ENV006",
                ("serving", name, "env", UCX_NET_DEVICES),
                f"{shown(pool.env[UCX_NET_DEVICES])} keeps KV of {name} on their host, and this cluster has"
                f" {len(cluster.hosts)}",
                f"name an interface that leads to the others, or remove `{UCX_NET_DEVICES}`",
            )
    for name, text in said.items():
        if not families[name]:
            yield Finding(
                "ENV006",
                ("serving", name, "env", UCX_TLS),
                f"{shown(text)} leaves {name} no network transport, and this cluster has {len(cluster.hosts)}"
                " hosts",
                f"add `tcp` or `rc`, or remove `{UCX_TLS}`",
            )
    if all(families.values()) and not families["prefillers"] & families["decoders"]:
        yield Finding(
            "ENV006",
            ("serving", "decoders", "env", UCX_TLS),
            f"{shown(said['decoders'])} on decoders and {shown(said['prefillers'])} on prefillers share no"
            " network transport",
            "name the same network transports on both sides, or remove both",
        )


def reserved(name: str) -> str | None:
    """What to use in place of a variable of pdctl's own; None for others."""
    by_prefix = (use for prefix, use in RESERVED_PREFIXES.items() if name.startswith(prefix))
    return RESERVED.get(name) or next(by_prefix, None)


def _moves_gpu_memory(cluster: Cluster) -> bool:
    engine = cluster.engine
    return engine.kind == "vllm" and engine.device == "cuda" and cluster.serving.mode == "disaggregated"


def _families(text: str) -> frozenset[str]:
    """Of the network transports that a list leaves: a `^` excludes, and no list excludes none."""
    names = {name.split(":")[0] for name in text.lstrip("^").split(",") if name}
    everything = frozenset[str]().union(*UCX_NETWORK.values())
    if not names or names & {*UCX_EVERYTHING}:
        return frozenset() if text.startswith("^") and names else everything
    if not text.startswith("^"):
        return frozenset(family for name in names for family in UCX_NETWORK.get(name, ()))
    # A family goes with its own name or its alias; one of its kinds leaves the others.
    gone = {family for name in names & {*everything, "ib"} for family in UCX_NETWORK[name]}
    return everything - gone
