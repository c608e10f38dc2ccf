"""Rules on `env`: variables that pdctl sets itself, and those that must agree."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules.rule import pools
from pdctl.spec.secrecy import shown

OWN = "pdctl sets it on each instance itself"
# Variables that pdctl computes, and the field that decides them. vLLM envs.py, LMCache v1/config.py.
RESERVED = {
    "LMCACHE_CONFIG_FILE": OWN,
    "LMCACHE_CHUNK_SIZE": "use `serving.lmcache.chunk_size`",
    "LMCACHE_ENABLE_PD": "use `serving.connector`",
    "LMCACHE_TRANSFER_CHANNEL": "use `serving.connector`",
    "LMCACHE_PD_BUFFER_SIZE": "use `serving.lmcache.buffer_bytes` and `prefiller_buffer_bytes`",
    "LMCACHE_INTERNAL_API_SERVER_PORT_START": "use `serving.ports.internal_api`",
    "CUDA_VISIBLE_DEVICES": "use `placement` with `gpus`",
    "CUDA_DEVICE_ORDER": "GPU indexes are in PCI order; " + OWN,
    "VLLM_NIXL_SIDE_CHANNEL_HOST": "use `private_address` of the host",
    "VLLM_NIXL_SIDE_CHANNEL_PORT": "use `serving.ports.side_channel`, or `ports` in `placement`",
    "VLLM_HOST_IP": "use `private_address` of the host",
    "VLLM_PORT": "use `serving.ports.engine`",
}
# LMCache takes any key of its file from LMCACHE_<KEY> and lets the variable win without a word.
RESERVED_PREFIXES = {"LMCACHE_PD_": OWN, "PDCTL_": OWN}
SEED = "PYTHONHASHSEED"


def pdctls_variables_are_left_alone(cluster: Cluster) -> Iterator[Finding]:
    given = [((*path, "env", name), name) for path, pool in pools(cluster) for name in pool.env]
    given += [(("secrets", name), name) for name in (*cluster.secrets,)]
    for path, name in given:
        use = RESERVED.get(name) or next(
            (u for p, u in RESERVED_PREFIXES.items() if name.startswith(p)), None
        )
        if name == SEED and path[0] == "secrets":
            use = "use `serving.lmcache.hash_seed`"
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
