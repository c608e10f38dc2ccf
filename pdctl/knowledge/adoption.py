"""How people start engines, proxies and LMCache by hand: flags, keys and variables, and what they become."""

from __future__ import annotations

from collections.abc import Mapping

# vLLM: `vllm serve --help=all` of 0.11.0 and 0.32.0 (arg_utils.py, cli_args.py) --------
SHORT_FLAGS: Mapping[str, str] = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-q": "quantization",
    "-O": "compilation-config",
    "-cc": "compilation-config",
    "-ac": "attention-config",
    "-ep": "enable-expert-parallel",
    "-asc": "api-server-count",
}
# Take one word or more.
MANY_WORDS = frozenset(
    (
        *("served-model-name", "api-key", "lora-modules", "middleware", "allowed-origins"),
        *("allowed-methods", "allowed-headers", "cudagraph-capture-sizes", "prefill-hosts", "decode-hosts"),
    )
)
# Take no word. Others take the next word unless that is a flag itself.
SWITCHES = frozenset(
    (
        *("enforce-eager", "enable-prefix-caching", "trust-remote-code", "enable-chunked-prefill"),
        *("enable-log-requests", "disable-log-requests", "enable-auto-tool-choice", "disable-log-stats"),
        *("enable-server-load-tracking", "enable-prompt-tokens-details", "enable-expert-parallel"),
        *("enable-sleep-mode", "async-scheduling", "disable-uvicorn-access-log", "skip-tokenizer-init"),
        *("disable-hybrid-kv-cache-manager", "disable-custom-all-reduce", "disable-cascade-attn"),
        *("enable-lora", "enable-return-routed-experts", "disable-sliding-window", "headless"),
        *("disable-fastapi-docs", "enable-request-id-headers", "enable-eplb", "return-tokens-as-token-ids"),
    )
)
# Flags whose value is a mapping: JSON, or one dotted flag for each key.
MAPPINGS = frozenset(
    (
        *("kv-transfer-config", "compilation-config", "speculative-config", "additional-config"),
        *("hf-overrides", "override-generation-config", "limit-mm-per-prompt", "mm-processor-kwargs"),
        *("attention-config", "kv-events-config", "structured-outputs-config", "model-loader-extra-config"),
    )
)
# argparse takes any beginning that fits one flag; these are the ones worth spelling out.
LONG_FLAGS = (
    *("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "gpu-memory-utilization"),
    *("max-num-seqs", "max-num-batched-tokens", "max-model-len", "served-model-name", "kv-transfer-config"),
)
# A flag of vLLM's and the field of the spec that decides it: of the model, or of a pool.
MODEL_FIELDS: Mapping[str, str] = {
    "revision": "revision",
    "max-model-len": "max_model_len",
    "dtype": "dtype",
}
POOL_FIELDS: Mapping[str, str] = {
    "tensor-parallel-size": "tensor_parallel",
    "gpu-memory-utilization": "gpu_memory_utilization",
    "max-num-seqs": "max_num_seqs",
    "max-num-batched-tokens": "max_num_batched_tokens",
}
# Read in other ways than as a flag of the pool.
HANDLED_FLAGS = frozenset(
    ("host", "port", "model", "served-model-name", "kv-transfer-config", "config", "uds")
) | {*MODEL_FIELDS, *POOL_FIELDS}
NO_COUNTERPART: Mapping[str, str] = {
    "pipeline-parallel-size": "an instance runs on one host with tensor parallelism only",
    "data-parallel-size": "an instance runs on one host with tensor parallelism only",
    "data-parallel-size-local": "an instance runs on one host with tensor parallelism only",
    "data-parallel-rank": "an instance runs on one host with tensor parallelism only",
    "data-parallel-address": "an instance runs on one host with tensor parallelism only",
    "nnodes": "an instance runs on one host",
    "node-rank": "an instance runs on one host",
    "api-server-count": "one API server per instance",
    "ssl-keyfile": "the proxy speaks plain HTTP to the engines",
    "ssl-certfile": "the proxy speaks plain HTTP to the engines",
    "root-path": "the proxy calls engines at their root",
}
# A flag that hands over a secret -> the variable that does the same and is kept out of the file.
SECRET_FLAGS: Mapping[str, str] = {"api-key": "VLLM_API_KEY", "hf-token": "HF_TOKEN"}

# LMCache --------
# Names of PD keys before 0.3.5 or so, still in its own examples; 0.3.10 to 0.5.6 warn and ignore them
# (v1/config.py).
OLD_LMCACHE_KEYS: Mapping[str, str] = {
    "enable_xpyd": "enable_pd",
    "enable_nixl": "enable_pd",
    "nixl_role": "pd_role",
    "nixl_peer_host": "pd_peer_host",
    "nixl_receiver_host": "pd_peer_host",
    "nixl_peer_init_port": "pd_peer_init_port",
    "nixl_peer_port": "pd_peer_init_port",
    "nixl_peer_alloc_port": "pd_peer_alloc_port",
    "nixl_proxy_host": "pd_proxy_host",
    "nixl_proxy_port": "pd_proxy_port",
    "nixl_buffer_size": "pd_buffer_size",
    "nixl_buffer_device": "pd_buffer_device",
}
OLD_KEYS_IGNORED_SINCE = "0.3.10"
# Keys that pdctl decides itself: another value than its own is told as a difference, not kept.
OWN_LMCACHE_KEYS = frozenset(
    (
        *("enable_pd", "pd_role", "transfer_channel", "pd_peer_host", "pd_peer_init_port"),
        *("pd_peer_alloc_port", "pd_proxy_host", "pd_proxy_port", "pd_buffer_size", "chunk_size"),
        *("lmcache_instance_id", "internal_api_server_port_start"),
    )
)

# Variables --------
# Of caches that each instance of pdctl's has for itself, and of an installation that stays behind.
LEFT_VARIABLES: Mapping[str, str] = {
    "XDG_CACHE_HOME": "each instance has a cache of its own",
    "VLLM_CACHE_ROOT": "each instance has a cache of its own",
    "TORCHINDUCTOR_CACHE_DIR": "each instance has a cache of its own",
    "TRITON_CACHE_DIR": "each instance has a cache of its own",
    "PROMETHEUS_MULTIPROC_DIR": "a folder of the old process",
    "VIRTUAL_ENV": "pdctl installs an environment of its own",
    "PYTHONPATH": "pdctl installs an environment of its own",
    "PYTHONHOME": "pdctl installs an environment of its own",
    "LD_LIBRARY_PATH": "pdctl installs an environment of its own",
    "LD_PRELOAD": "pdctl installs an environment of its own",
    "NIXL_PLUGIN_DIR": "the nixl wheel brings its plugins",
    "LMCACHE_USE_EXPERIMENTAL": "newer versions know it no more, older ones default to it",
}
# Mapped to fields, ports and places; and those that change nothing in how an engine serves.
READ_VARIABLES = frozenset(
    (
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "PYTHONHASHSEED"),
        *("LMCACHE_CONFIG_FILE", "VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT"),
        *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "PYTHONIOENCODING"),
        *("VLLM_HOST_IP", "VLLM_PORT", "PDCTL_SIMULATOR", "PDCTL_REVISION", "PDCTL_CPU_CONNECTOR"),
    )
)
# Given by systemd, by a shell or by the host to any process: systemd.exec(5), dash(1), bash(1).
HOST_VARIABLES = frozenset(
    (
        *(
            "PATH",
            "LANG",
            "LANGUAGE",
            "USER",
            "LOGNAME",
            "HOME",
            "SHELL",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "_",
            "TERM",
        ),
        *(
            "TZ",
            "HOSTNAME",
            "INVOCATION_ID",
            "JOURNAL_STREAM",
            "SYSTEMD_EXEC_PID",
            "NOTIFY_SOCKET",
            "MAINPID",
        ),
        *("MANAGERPID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID", "WATCHDOG_USEC"),
        *("RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY", "DEBIAN_FRONTEND"),
        *("CONFIGURATION_DIRECTORY", "CREDENTIALS_DIRECTORY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
        *("MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE", "LESSOPEN", "LESSCLOSE", "CONDA_PREFIX", "PS1"),
        *("SUDO_USER", "SUDO_UID", "SUDO_GID", "SUDO_COMMAND", "MAIL", "CUDA_MODULE_LOADING"),
    )
)
# Secrets that an engine reads, wherever they come from; others count only if a service was given them.
ENGINE_SECRETS = frozenset(("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "VLLM_API_KEY"))
# NIXL side channel without VLLM_NIXL_SIDE_CHANNEL_PORT: vLLM 0.11.0 envs.py, and later ones.
SIDE_CHANNEL_DEFAULT_OLD = 5557
SIDE_CHANNEL_DEFAULT = 5600

# Names that nvidia-smi prints -> the table of known GPUs (knowledge/gpus.py). --------
NVIDIA_NAMES: Mapping[str, str] = {
    "NVIDIA H100 80GB HBM3": "H100-SXM-80GB",
    "NVIDIA H200": "H200-SXM-141GB",
    "NVIDIA B200": "B200-SXM-180GB",
    "NVIDIA B300 SXM6 AC": "B300-SXM-270GB",
    "NVIDIA A100-SXM4-80GB": "A100-SXM-80GB",
    "NVIDIA H100 PCIe": "H100-PCIE-80GB",
    "NVIDIA A40": "A40",
    "NVIDIA L40S": "L40S",
}

# Proxies: the flags that name the two sides, by spelling --------
# LMCache examples/disagg_prefill/disagg_proxy_server.py (0.3.10 and 0.5.6).
LMCACHE_PROXY_DEFAULTS: Mapping[str, str] = {
    "host": "localhost",
    "port": "8000",
    "prefiller-host": "localhost",
    "prefiller-port": "8100",
    "num-prefillers": "1",
    "decoder-host": "localhost",
    "decoder-port": "8200",
    "decoder-init-port": "8300",
    "decoder-alloc-port": "8400",
    "num-decoders": "1",
    "proxy-host": "localhost",
    "proxy-port": "8500",
}
# vLLM tests/v1/kv_connector/nixl_integration/toy_proxy_server.py; singular and plural both occur.
TOY_PROXY_LISTS = {
    "prefiller": (("prefiller-hosts", "prefiller-host"), ("prefiller-ports", "prefiller-port")),
    "decoder": (("decoder-hosts", "decoder-host"), ("decoder-ports", "decoder-port")),
}
# vllm-router and vLLM's examples: URLs.
URL_FLAGS = {"prefiller": ("prefill", "prefill-url"), "decoder": ("decode", "decode-url")}
