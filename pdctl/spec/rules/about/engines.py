"""Rules on engines: their arguments, variables, versions, and keys that would have no effect."""

from __future__ import annotations

from pdctl.spec.rules.about import About, doubt, warning

CPU = "engine: {device: cpu}\nhosts: [{name: host1, address: 10.0.0.11}]\nmodel: {id: pdctl/tiny}\n"
VARIABLES = (
    About(
        "ENV001",
        "A variable is pdctl's own",
        "pdctl computes it for each instance, e.g. its address, its port or its GPUs. LMCache takes any key"
        " of its"
        " file from a variable and lets that win without a word.",
        "Use the field that the error names.",
        "serving: {prefillers: {env: {VLLM_NIXL_SIDE_CHANNEL_HOST: 0.0.0.0}}, decoders: {}}\n",
    ),
    warning(
        "ENV002",
        "HF_HOME ends in `/hub`",
        "Hugging Face appends `hub` itself, so the weights are looked for one folder too deep and loaded"
        " again.",
        "Name the folder above it.",
        "serving: {prefillers: {env: {HF_HOME: /data/hf/hub}}, decoders: {}}\n",
    ),
    warning(
        "ENV003",
        "Engines of one host share a compile cache",
        "Two that start at once write the same files and die with an assertion (vLLM issues 18851 and"
        " 24601).",
        "Remove the variable: pdctl gives each instance a folder of its own.",
        "serving: {prefillers: {count: 2, env: {VLLM_CACHE_ROOT: /data/cache}}, decoders: {}}\n",
    ),
    doubt(
        "ENV004",
        "Another UCX is put on the library path",
        "The nixl wheel brings its own; two in one process hang, crash, or fail to register GPU memory"
        " (NIXL issue"
        " 1668).",
        "Remove the folder from the variable.",
        "serving: {prefillers: {env: {LD_LIBRARY_PATH: /opt/hpcx/ucx/lib}}, decoders: {}}\n",
    ),
    doubt(
        "ENV005",
        "UCX_TLS names no CUDA transport",
        "An explicit list must hold one, or UCX takes GPU memory for the host's (UCX FAQ).",
        "Add `cuda_copy` and `cuda_ipc`, or remove the variable.",
        "serving: {prefillers: {env: {UCX_TLS: tcp}}, decoders: {}}\n",
    ),
    warning(
        "ENV006",
        "Both sides have no network transport in common",
        "UCX uses only what UCX_TLS lists, so KV between hosts would have no way. Without it all are used.",
        "Name the same network transports on both sides, or remove both.",
        "hosts:\n- {name: gpu01, address: 10.0.0.11, gpus: 8}\n- {name: gpu02, address: 10.0.0.12, gpus: 8}\n"
        "serving: {prefillers: {env: {UCX_TLS: 'rc,cuda_copy'}}, decoders: {env: {UCX_TLS:"
        " 'tcp,cuda_copy'}}}\n",
    ),
)
ENGINES = (
    About(
        "ENGINE001",
        "The CPU engine is asked for tensor parallelism",
        "It is for evaluation and runs with one rank.",
        "Set tensor_parallel to 1, or `engine.device: cuda`.",
        CPU + "serving: {prefillers: {tensor_parallel: 2}, decoders: {tensor_parallel: 2}}\n",
    ),
    About(
        "ENGINE002",
        "The CPU engine is given GPUs",
        "It uses none.",
        "Remove `gpus`, or set `engine.device: cuda`.",
        CPU + "serving: {prefillers: {placement: [{host: host1, gpus: [0]}]}, decoders: {}}\n",
    ),
    About(
        "ENGINE003",
        "The CPU engine's system is another",
        "Its wheels are locked for the Python of Debian 12.",
        "Use a debian-12 host, or another engine.",
        "engine: {device: cpu}\nhosts: [{name: host1, address: 10.0.0.11, os: ubuntu-24.04}]\n"
        "model: {id: pdctl/tiny}\n",
    ),
    About(
        "ENGINE004",
        "A step cannot hold a token of each request",
        "vLLM refuses to start when max_num_batched_tokens is less than max_num_seqs.",
        "Raise the one, or lower the other.",
        "serving: {prefillers: {}, decoders: {max_num_seqs: 256, max_num_batched_tokens: 128}}\n",
    ),
    About(
        "MODEL001",
        "The tiny model is to run on GPUs",
        "It has random weights and is made for the CPU engine and the simulator.",
        "Name a real model, or set `engine.device: cpu`.",
        "model: {id: pdctl/tiny}\n",
    ),
    About(
        "MODEL002",
        "The model's KV shape is not known",
        "Transfer buffers are sized in chunks of KV, whose bytes follow from layers, KV heads and head size.",
        "Copy them from the model's config.json into `model.kv`, and give `model.max_model_len`.",
        "model: {id: acme/unheard-of}\n",
    ),
    warning(
        "BENCH001",
        "The benchmark's requests are longer than the model takes",
        "The engine refuses each of them.",
        "Shorten input or output, or raise `model.max_model_len`.",
        "model: {id: openai/gpt-oss-120b, max_model_len: 4096}\nbench: {input_len: 4000, output_len: 1000}\n",
    ),
)
PINS = (
    About(
        "PIN001",
        "The named stack is not shipped",
        "`stack.base` names a set of versions that comes with pdctl.",
        "Take the name that the error suggests, or pin versions one by one.",
        "stack: article-2024\n",
    ),
    About(
        "PIN002",
        "A stack for GPUs is named for the CPU engine",
        "The CPU engine has one set of wheels, locked with hashes.",
        "Remove it.",
        CPU + "serving: {prefillers: {}, decoders: {}}\nstack: article-2025\n",
    ),
    About(
        "PIN003",
        "A pin differs from the CPU engine's lock",
        "Its wheels are locked with hashes, so a pin can only repeat what the lock holds.",
        "Remove the pin.",
        CPU + 'serving: {prefillers: {}, decoders: {}}\nstack: {vllm: "0.11.0"}\n',
    ),
    About(
        "DRIVER001",
        "Fabric Manager and driver are of different versions",
        "On NVSwitch machines the daemon checks for its own version exactly and refuses any other; CUDA stays"
        " unavailable. Debian's revision after the last `-` does not count.",
        "Pin both to one version.",
        'stack: {base: article-2025, driver: "570.195.03-0ubuntu1", driver_package:'
        " nvidia-driver-570-server-open}\n",
    ),
    About(
        "DRIVER002",
        "The driver's package is of another branch than its version",
        "A package holds one branch only, so apt would find no such version.",
        "Pin `driver` and `driver_package` of one branch.",
        "stack: {base: article-2025, driver_package: nvidia-driver-570-server-open}\n",
    ),
)
EFFECTS = (
    About(
        "USE001",
        "`hosts` or `labels` stand beside `placement`",
        "`placement` names a host for each instance, so they would change nothing.",
        "Remove one of the two.",
        "serving: {prefillers: {placement: [gpu01], hosts: [gpu01]}, decoders: {}}\n",
    ),
    About(
        "USE002",
        "Ports are pinned that nobody opens",
        "Which ports an instance opens follows from its role and the connector.",
        "Remove them.",
        "serving: {prefillers: {placement: [{host: gpu01, ports: {init: [7300]}}]}, decoders: {}}\n",
    ),
    warning(
        "USE003",
        "Transfer settings have no transfer",
        "Aggregated servers move no KV, and NIXL has no settings of LMCache's.",
        "Remove them.",
        "serving: {connector: nixl, prefillers: {}, decoders: {}, lmcache: {chunk_size: 256}}\n",
    ),
    warning(
        "USE004",
        "The simulator's timing stands beside another engine",
        "Nothing reads it.",
        "Remove it, or set `kind: simulator`.",
        "engine: {kind: vllm, simulator: {itl_ms: 5}}\n",
    ),
    doubt(
        "USE005",
        "A pin for NIXL built from source cannot take effect",
        "pdctl installs the nixl wheel, which brings its own UCX: a pin would promise a version that no"
        " process"
        " loads.",
        "Remove it, and pin `nixl`.",
        'stack: {ucx: "1.19.0"}\n',
    ),
    warning(
        "USE006",
        "A pin has no effect on these hosts",
        "Driver, Fabric Manager and CUDA are installed for engines on GPUs only, Fabric Manager only on"
        " boards with"
        " NVSwitch: elsewhere its daemon fails.",
        "Remove it.",
        'engine: simulator\nstack: {cuda: "13.0.88-1"}\n',
    ),
    warning(
        "USE007",
        "NICs are declared for engines without GPUs",
        "The CPU engine moves KV over TCP, the simulator moves none.",
        "Remove `nics`.",
        "engine: {device: cpu}\nhosts: [{name: host1, address: 10.0.0.11, nics: [{name: m, gpus: [0]}]}]\n"
        "model: {id: pdctl/tiny}\n",
    ),
)
