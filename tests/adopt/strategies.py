"""Random specs that are valid, small and various."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

FLAGS = [
    ["--trust-remote-code"],
    ["--seed", "7"],
    ["--swap-space=8"],
    ["--no-enable-chunked-prefill"],
    ["--compilation-config", '{"level":3}'],
    ["--download-dir", "/data/hf models"],
]
VARIABLES = {"NCCL_DEBUG": "INFO", "HF_HOME": "/data/hf", "UCX_LOG_LEVEL": "info", "OMP_NUM_THREADS": "4"}
KV = {"layers": 3, "kv_heads": 4, "head_dim": 16, "bytes_per_value": 4}
MODELS = [
    {"id": "openai/gpt-oss-20b"},
    {"id": "openai/gpt-oss-20b", "served_name": "chat", "max_model_len": 8192, "dtype": "bfloat16"},
    {"id": "meta-llama/Llama-3.1-8B-Instruct", "max_model_len": 32768, "revision": "abc1"},
    {"id": "someone/else", "max_model_len": 4096, "kv": KV, "dtype": "float32"},
    {"id": "gpt-oss-20b", "path": "/models/gpt-oss-20b", "kv": KV, "max_model_len": 1024, "served_name": "x"},
]
STACKS = [
    "article-2025",
    "cuda13-2026",
    {"vllm": "0.11.0", "lmcache": "0.3.10", "torch": "2.8.0", "nixl": "0.6.1", "python": "3.11"},
    {"vllm": "0.33.0"},
]


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """Top-level values; a few of them do not fit together, as when GPUs run out."""
    simulated = draw(st.booleans())
    hosts = draw(st.integers(1, 3))
    spec: dict[str, Any] = {
        "cluster": draw(st.sampled_from(["chat", "chat-2", "a-decoder-0"])),
        "ssh": draw(st.sampled_from([{"user": "ops"}, {}])),
        "hosts": [_host(draw, index, simulated) for index in range(hosts)],
        "model": draw(st.sampled_from(MODELS[:3] if simulated else MODELS)),
        "serving": _serving(draw, [f"gpu{index}" for index in range(hosts)]),
    }
    if simulated:
        spec["engine"] = draw(
            st.sampled_from(["simulator", {"kind": "simulator", "simulator": {"itl_ms": 2.5}}])
        )
    else:
        spec["stack"] = draw(st.sampled_from(STACKS))
    if draw(st.booleans()):
        spec["secrets"] = {"HF_TOKEN": {"from_env": "HF_TOKEN"}}
    return spec


def _host(draw: st.DrawFn, index: int, simulated: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"name": f"gpu{index}", "address": f"192.0.2.{index + 1}"}
    if draw(st.booleans()):
        row["private_address"] = f"10.0.0.{index + 1}"
    if simulated:
        return row
    model = draw(st.sampled_from(["H100-SXM-80GB", "A40"]))
    return row | {"gpus": {"count": draw(st.sampled_from([4, 8])), "model": model}}


def _serving(draw: st.DrawFn, hosts: list[str]) -> dict[str, Any]:
    mode = draw(st.sampled_from(["disaggregated", "disaggregated", "aggregated"]))
    width = draw(st.sampled_from([1, 1, 2, 4]))
    found: dict[str, Any] = {"mode": mode, "ports": draw(_bases())}
    if mode == "aggregated":
        return found | {"instances": _pool(draw, hosts, width, ())}
    connector = draw(st.sampled_from(["lmcache", "nixl"]))
    found |= {"connector": connector}
    found["prefillers"] = _pool(draw, hosts, width, (), first=0)
    found["decoders"] = _pool(
        draw, hosts, width, ("init", "alloc") if connector == "lmcache" else (), first=4
    )
    if connector == "lmcache":
        found["lmcache"] = draw(
            st.sampled_from(
                [{}, {"chunk_size": 64}, {"hash_seed": "42"}, {"chunk_size": 128, "hash_seed": "1"}]
            )
        )
    proxy = {"host": draw(st.sampled_from(hosts)), "ports": draw(_fronts())}
    return found | draw(st.sampled_from([{}, {"proxy": proxy}, {"load_timeout_s": 600}]))


def _bases() -> st.SearchStrategy[dict[str, int]]:
    return st.sampled_from(
        [
            {},
            {"prefiller": 8100, "decoder": 8200, "server": 8300},
            {"engine": 25000, "internal_api": 6500},
            {"init": 17300, "alloc": 17400, "side_channel": 5557},
        ]
    )


def _fronts() -> st.SearchStrategy[dict[str, int]]:
    return st.sampled_from([{}, {"http": 8000}, {"http": 8080, "metrics": 8081, "notification": 8082}])


def _pool(
    draw: st.DrawFn, hosts: list[str], width: int, ports: tuple[str, ...], first: int = 0
) -> dict[str, Any]:
    pool: dict[str, Any] = {"tensor_parallel": width, "count": draw(st.integers(1, 3))}
    for name, values in (("max_num_seqs", [1]), ("gpu_memory_utilization", [0.85, 0.9])):
        if draw(st.booleans()):
            pool[name] = draw(st.sampled_from(values))
    if flags := draw(st.lists(st.sampled_from(FLAGS), max_size=2, unique_by=str)):
        pool["extra_args"] = [word for words in flags for word in words]
    if names := draw(st.sets(st.sampled_from(sorted(VARIABLES)), max_size=2)):
        pool["env"] = {name: VARIABLES[name] for name in sorted(names)}
    where = draw(st.sampled_from(["anywhere", "some", "placed"]))
    if where == "some":
        pool["hosts"] = draw(st.lists(st.sampled_from(hosts), min_size=1, unique=True))
    if where == "placed" and width < 4:
        del pool["count"]
        pool["placement"] = [_place(draw, hosts, index, width, ports, first) for index in range(2)]
    return pool


def _place(
    draw: st.DrawFn, hosts: list[str], index: int, width: int, ports: tuple[str, ...], first: int
) -> Any:
    host = draw(st.sampled_from(hosts))
    if draw(st.booleans()):
        return host
    base = 9200 + 100 * index + 20 * first
    pinned = {name: [base + 10 * n + k for k in range(width)] for n, name in enumerate(ports, 1)}
    return {"host": host, "ports": {"http": base, **pinned}}
