"""How an engine process is called: argv as words, environment as names and values."""

from __future__ import annotations

import json
from typing import Any

from pdctl.desired.affinity import net_devices, without_tcp
from pdctl.desired.layout import DOWNLOADS, MODELS, SERVICE_USER, VOCABULARY, cache_dir, config_dir
from pdctl.knowledge import versions
from pdctl.knowledge.leases import NIXL_ABORT_S, NIXL_LEASE_S
from pdctl.knowledge.models import TINY
from pdctl.knowledge.variables import UCX_ONE_HOST, UCX_TLS
from pdctl.knowledge.versions import at_least
from pdctl.knowledge.vocabularies import ENCODINGS
from pdctl.spec.serving import Pool
from pdctl.topology.model import Instance, Role, Topology
from pdctl.topology.placement import POOL_FIELD

# The module that `vllm serve` runs; called through the interpreter so that no script's shebang matters.
ENTRY = {"vllm": "vllm.entrypoints.cli.main", "simulator": "pdctl_simulator"}

# Tokens of a KV block, and of the whole cache, of the CPU engine.
CPU_BLOCK = 32
CPU_KV_TOKENS = 65536


def argv(topology: Topology, instance: Instance, python: str) -> list[str]:
    """The engine's command line. The user's own words come last, so they win."""
    pool = pool_of(topology, instance.role)
    words = [python, "-m", ENTRY[topology.spec.engine.kind], "serve", model_argument(topology)]
    for name, value in _flags(topology, instance, pool).items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return [*words, *pool.extra_args]


def environment(topology: Topology, instance: Instance) -> dict[str, str]:
    """The engine's variables, without secrets. The user's own come last, so they win."""
    spec, cluster = topology.spec, topology.cluster
    cache = cache_dir(cluster, instance.name)
    found = {
        "HOME": cache,
        "USER": SERVICE_USER,
        # One cache per instance: simultaneous starts corrupt a shared compile cache.
        "XDG_CACHE_HOME": cache,
        "VLLM_CACHE_ROOT": f"{cache}/vllm",
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "HF_HOME": DOWNLOADS if downloads(topology) else f"{cache}/huggingface",
        "PYTHONHASHSEED": spec.serving.lmcache.hash_seed,
        "VLLM_HOST_IP": instance.address,
        "VLLM_PORT": str(instance.ports.engine.start),
        "VLLM_ENGINE_READY_TIMEOUT_S": str(spec.serving.load_timeout_s),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    parts = (_device(topology, instance), _without_internet(topology), _transfer(topology, instance))
    for part in (*parts, _simulator(topology)):
        found |= part
    return found | pool_of(topology, instance.role).env


def transfer_config(topology: Topology, instance: Instance) -> dict[str, Any] | None:
    """The value of --kv-transfer-config; None for aggregated servers."""
    if instance.role is Role.SERVER:
        return None
    if topology.spec.serving.connector == "lmcache":
        return _lmcache_transfer(topology, instance)
    return _nixl_transfer(topology, instance)


def pool_of(topology: Topology, role: Role) -> Pool:
    pool = getattr(topology.spec.serving, POOL_FIELD[role])
    assert isinstance(pool, Pool)
    return pool


def model_argument(topology: Topology) -> str:
    """The same text on every instance: LMCache's cache keys contain it."""
    model = topology.spec.model
    if model.id == TINY and topology.spec.engine.kind == "vllm":
        return model.path or f"{MODELS}/tiny"
    return model.path or model.id


def downloads(topology: Topology) -> bool:
    """Whether engines load the weights by name: then one shared folder holds them."""
    return topology.spec.engine.kind == "vllm" and not model_argument(topology).startswith("/")


def notes(topology: Topology, instance: Instance) -> list[str]:
    """Comments for the unit: why a flag is there that a reader would question."""
    found = []
    if _must_not_split_prompts(topology, instance):
        found.append(
            "TP > 1 with LMCache: a prompt split over two steps is sent again from its start, so each"
        )
        found.append(
            "prompt must fit into one step: --max-num-seqs 1 and a budget of --max-model-len tokens."
        )
    if instance.role is Role.DECODER and topology.spec.serving.connector == "lmcache":
        found.append(
            "No prefix caching on decoders: chunks that the engine already has would never leave the buffer."
        )
    return found


def _flags(topology: Topology, instance: Instance, pool: Pool) -> dict[str, Any]:
    spec = topology.spec
    flags: dict[str, Any] = {
        "served-model-name": topology.served_name,
        "host": instance.address,
        "port": instance.ports.http,
        "tensor-parallel-size": instance.tensor_parallel,
    }
    optional = {
        "revision": spec.model.revision,
        "max-model-len": topology.max_model_len or None,
        "dtype": spec.model.dtype,
        "gpu-memory-utilization": pool.gpu_memory_utilization or topology.utilization.get(instance.role),
        "max-num-seqs": pool.max_num_seqs,
        "max-num-batched-tokens": pool.max_num_batched_tokens,
    }
    flags |= {name: value for name, value in optional.items() if value is not None}
    if spec.engine.device == "cpu" and spec.engine.kind == "vllm":
        flags |= {"enforce-eager": True, "dtype": spec.model.dtype or "float32", "block-size": CPU_BLOCK}
        # The engine sizes its cache in whole GiB; this many tokens are plenty for an evaluation.
        flags["num-gpu-blocks-override"] = CPU_KV_TOKENS // CPU_BLOCK
    return flags | _pd_flags(topology, instance, flags)


def _pd_flags(topology: Topology, instance: Instance, flags: dict[str, Any]) -> dict[str, Any]:
    transfer = transfer_config(topology, instance)
    if transfer is None:
        return {}
    found: dict[str, Any] = {}
    if topology.spec.serving.connector == "lmcache":
        lmcache = topology.pins["lmcache"]
        if instance.role is Role.DECODER or not at_least(lmcache, versions.PREFILLER_PREFIX_CACHING):
            found["no-enable-prefix-caching"] = True
        if at_least(versions.EAGER_WITH_LMCACHE_UNTIL, lmcache):
            found["enforce-eager"] = True
    if _must_not_split_prompts(topology, instance):
        found["max-num-seqs"] = 1
        found["max-num-batched-tokens"] = max(topology.max_model_len, flags.get("max-num-batched-tokens", 0))
    found["kv-transfer-config"] = json.dumps(transfer, separators=(",", ":"))
    return found


def _must_not_split_prompts(topology: Topology, instance: Instance) -> bool:
    lmcache = topology.spec.serving.connector == "lmcache"
    return lmcache and instance.role is Role.PREFILLER and instance.tensor_parallel > 1


def _lmcache_transfer(topology: Topology, instance: Instance) -> dict[str, Any]:
    sender = instance.role is Role.PREFILLER
    extra: dict[str, Any] = {"discard_partial_chunks": False, "lmcache_rpc_port": instance.name}
    if not sender and decode_leg(topology) == "append-first-token":
        extra["skip_last_n_tokens"] = 1
    return {
        "kv_connector": "LMCacheConnectorV1",
        "kv_role": "kv_producer" if sender else "kv_consumer",
        "kv_connector_extra_config": extra,
    }


def _nixl_transfer(topology: Topology, instance: Instance) -> dict[str, Any]:
    vllm = topology.pins["vllm"]
    sender = instance.role is Role.PREFILLER
    found: dict[str, Any] = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
    if at_least(vllm, versions.NIXL_ROLES):
        found["kv_role"] = "kv_producer" if sender else "kv_consumer"
    if topology.spec.engine.device == "cpu":
        found["kv_buffer_device"] = "cpu"
    if at_least(vllm, versions.KV_LOAD_FAILURE_POLICY):
        found["kv_load_failure_policy"] = "fail"
    if at_least(vllm, versions.KV_LEASE_IN_CONFIG):
        found["kv_connector_extra_config"] = {"kv_lease_duration": NIXL_LEASE_S}
    return found


def decode_leg(topology: Topology) -> str:
    """What the decoder is asked for: see docs/proxy.md."""
    newer = at_least(topology.pins["lmcache"], versions.ORIGINAL_PROMPT_DECODE)
    return "original" if newer else "append-first-token"


def _device(topology: Topology, instance: Instance) -> dict[str, str]:
    if topology.spec.engine.kind == "simulator":
        return {}
    if topology.spec.engine.device == "cpu":
        interface = topology.hosts[instance.host].interface
        found = {
            "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        return found | ({"GLOO_SOCKET_IFNAME": interface} if interface else {})
    return {
        # CUDA counts fastest first by default; the spec and nvidia-smi count by PCI address.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, instance.gpus)),
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    }


def _without_internet(topology: Topology) -> dict[str, str]:
    # transformers and vLLM follow huggingface_hub's variable (transformers 4.57 utils/hub.py).
    found = {"HF_HUB_OFFLINE": "1"} if topology.spec.offline else {}
    return found | ({ENCODINGS: VOCABULARY} if topology.vocabulary else {})


def _transfer(topology: Topology, instance: Instance) -> dict[str, str]:
    if instance.role is Role.SERVER:
        return {}
    found = _ucx(topology, instance)
    if topology.spec.serving.connector == "lmcache":
        found["LMCACHE_CONFIG_FILE"] = f"{config_dir(topology.cluster)}/{instance.name}.lmcache.yaml"
        found["LMCACHE_TRACK_USAGE"] = "false"
    else:
        found["VLLM_NIXL_SIDE_CHANNEL_HOST"] = instance.address
        found["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(instance.ports.side_channel[0])
        if not at_least(topology.pins["vllm"], versions.KV_LEASE_IN_CONFIG):
            found["VLLM_NIXL_ABORT_REQUEST_TIMEOUT"] = str(NIXL_ABORT_S)
    return found


def _ucx(topology: Topology, instance: Instance) -> dict[str, str]:
    if topology.spec.engine.kind == "simulator":
        return {}
    if topology.spec.engine.device == "cpu":
        interface = topology.hosts[instance.host].interface
        found = {"UCX_TLS": "tcp,sm,self", "PDCTL_CPU_CONNECTOR": "1"}
        return found | ({"UCX_NET_DEVICES": interface} if interface else {})
    if all(i.host == instance.host for i in topology.instances):
        # An explicit list must hold the CUDA transports, or GPU memory is not recognised (UCX FAQ).
        return {UCX_TLS: UCX_ONE_HOST} | net_devices(topology, instance)
    return net_devices(topology, instance) or without_tcp(topology)


def _simulator(topology: Topology) -> dict[str, str]:
    if topology.spec.engine.kind != "simulator":
        return {}
    timing = topology.spec.engine.simulator.model_dump(exclude={"stack"})
    if topology.kv is not None:
        timing["bytes_per_token"] = topology.kv.bytes_per_token
    timing |= {"lmcache_version": topology.pins["lmcache"], "vllm_version": topology.pins["vllm"]}
    return {"PDCTL_SIMULATOR": json.dumps(timing, sort_keys=True)}
