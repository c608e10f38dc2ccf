"""The article's set-up, against its own numbers: ports, pins, flags, and what the hardware implies."""

from __future__ import annotations

import pytest

from pdctl.state import Package, Venv
from tests.desired.rendered import Engine, example, program_is_of

ARTICLE = "hgx-h100-article"
TWIN = "hgx-h100-aggregated"
HOST = "10.0.0.11"
MODEL = "openai/gpt-oss-120b"

# gpt-oss-120b's config.json: 36 layers, 8 KV heads of 64 values; KV in bf16, split over 2 ranks.
LAYERS, KV_HEADS, HEAD_DIM, BYTES, RANKS = 36, 8, 64, 2, 2
CONTEXT = 131072  # max_position_embeddings: the article serves the model without a limit
CHUNK_TOKENS = 256
CHUNK = LAYERS * 2 * CHUNK_TOKENS * (KV_HEADS // RANKS) * HEAD_DIM * BYTES
GPU_MIB = 81559  # memory.total of an H100 SXM 80 GB in nvidia-smi
VLLM_SHARE = 0.9  # vLLM's default --gpu-memory-utilization

COMMON = [
    "-m", "vllm.entrypoints.cli.main", "serve", MODEL, "--served-model-name", MODEL, "--host", HOST,
]  # fmt: skip
# As LMCache 0.3.10's own PD examples call vLLM, plus what keeps a prompt in one step on the prefiller.
ARGV = {
    "prefiller-0": [
        *COMMON, "--port", "7100", "--tensor-parallel-size", "2", "--max-model-len", str(CONTEXT),
        "--no-enable-prefix-caching", "--enforce-eager", "--max-num-seqs", "1",
        "--max-num-batched-tokens", str(CONTEXT),
    ],
    "decoder-0": [
        *COMMON, "--port", "7200", "--tensor-parallel-size", "2", "--max-model-len", str(CONTEXT),
        "--no-enable-prefix-caching", "--enforce-eager",
    ],
}  # fmt: skip
TRANSFER = {
    "prefiller-0": {
        "kv_connector": "LMCacheConnectorV1",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": {"discard_partial_chunks": False, "lmcache_rpc_port": "prefiller-0"},
    },
    "decoder-0": {
        "kv_connector": "LMCacheConnectorV1",
        "kv_role": "kv_consumer",
        "kv_connector_extra_config": {
            "discard_partial_chunks": False,
            "lmcache_rpc_port": "decoder-0",
            "skip_last_n_tokens": 1,  # the proxy appends the prefiller's token
        },
    },
}
BOTH_SIDES = {
    "enable_pd": True,
    "transfer_channel": "nixl",
    "pd_buffer_size": 513 * 9437184,
    "pd_buffer_device": "cuda",
    "nixl_backends": ["UCX"],
    "chunk_size": 256,
    "local_cpu": False,
    "max_local_cpu_size": 0,
    "save_unfull_chunk": True,
    "save_decode_cache": False,
    "internal_api_server_enabled": False,
    "internal_api_server_host": "127.0.0.1",
}
LMCACHE = {
    "prefiller-0": BOTH_SIDES
    | {
        "pd_role": "sender",
        "pd_proxy_host": HOST,
        "pd_proxy_port": 7500,
        "lmcache_instance_id": "chat-prefiller-0",
        "internal_api_server_port_start": 6000,
    },
    "decoder-0": BOTH_SIDES
    | {
        "pd_role": "receiver",
        "pd_peer_host": HOST,
        "pd_peer_init_port": [7300, 7301],
        "pd_peer_alloc_port": [7400, 7401],
        "lmcache_instance_id": "chat-decoder-0",
        "internal_api_server_port_start": 6200,
    },
}


def engine(name: str) -> Engine:
    return example(ARTICLE).engines[name]


@pytest.mark.parametrize("name", ARGV)
def test_the_command_lines_are_those_of_the_articles_stack(name: str) -> None:
    argv = engine(name).argv
    assert program_is_of(argv, "engine-cuda-")
    assert argv[1:-2] == ARGV[name]
    assert argv[-2] == "--kv-transfer-config" and engine(name).transfer == TRANSFER[name]


@pytest.mark.parametrize("name", LMCACHE)
def test_the_lmcache_files_hold_these_keys_and_values(name: str) -> None:
    assert engine(name).lmcache == LMCACHE[name]


def test_the_ports_are_the_articles() -> None:
    """9100 in front, 7100 and 7200 behind, 7300,7301 and 7400,7401 for the ranks, 7500 for notices."""
    proxy = example(ARTICLE).proxy
    assert proxy["listen"] == {"host": HOST, "port": 9100}
    assert proxy["notification"] == {"host": HOST, "port": 7500}
    assert proxy["prefillers"] == [{"name": "prefiller-0", "url": f"http://{HOST}:7100"}]
    [decoder] = proxy["decoders"]
    assert decoder["url"] == f"http://{HOST}:7200" and decoder["host"] == HOST
    assert (decoder["init_ports"], decoder["alloc_ports"]) == ([7300, 7301], [7400, 7401])


def test_the_buffer_is_whole_chunks_and_holds_the_longest_prompt() -> None:
    assert CHUNK == 9437184
    for name in ("prefiller-0", "decoder-0"):
        size = engine(name).lmcache["pd_buffer_size"]
        assert size % CHUNK == 0  # 0.3.10 ends on an assertion otherwise
        assert size // CHUNK == 513 >= CONTEXT / CHUNK_TOKENS
    assert example(ARTICLE).proxy["decoders"][0]["slots"] == 513
    assert example(ARTICLE).proxy["chunk_size"] == CHUNK_TOKENS


def test_the_buffer_fits_beside_vllms_share_of_the_gpu() -> None:
    """vLLM 0.11 allocates the buffer before it measures free memory, and wants its whole share free."""
    assert engine("decoder-0").flag("gpu-memory-utilization") is None  # vLLM's own default holds
    buffer_mib = engine("decoder-0").lmcache["pd_buffer_size"] / 2**20
    context_mib = 2048  # CUDA context and NCCL, a round figure
    assert VLLM_SHARE * GPU_MIB + buffer_mib + context_mib <= GPU_MIB


def test_prefillers_and_decoders_have_two_gpus_each_and_share_none() -> None:
    given = [engine(name).env["CUDA_VISIBLE_DEVICES"].split(",") for name in ARGV]
    assert [len(gpus) for gpus in given] == [2, 2] and not set(given[0]) & set(given[1])


def test_the_hosts_packages_are_the_articles() -> None:
    found = {r.name: r for r in example(ARTICLE).state.values() if isinstance(r, Package)}
    assert {name: package.version for name, package in found.items()} == {
        "nvidia-driver-580-server-open": "580.95.05-0ubuntu0.22.04.2",
        "cuda-drivers-fabricmanager-580": "580.95.05-0ubuntu0.22.04.2",
        "cuda-nvcc-13-0": "13.0.88-1",
        "cuda-cudart-dev-13-0": "13.0.88-1",
        "doca-ofed": "3.0.0-058218",
        "linux-headers-generic": None,
    }
    assert all(package.hold for package in found.values() if package.version)
    pins = example(ARTICLE).texts()
    [preferences] = [text for key, text in pins.items() if "/etc/apt/preferences.d/" in key.id]
    for name, package in found.items():
        if package.version is None:
            continue
        assert f"Package: {name}\nPin: version {package.version}\nPin-Priority: 1001\n" in preferences


def test_the_engines_python_packages_are_the_articles() -> None:
    [venv] = [r for r in example(ARTICLE).state.values() if isinstance(r, Venv) and "cuda" in r.path]
    # vLLM 0.11.0 is the pair of LMCache 0.3.10's wheel (torch 2.8.0); NIXL 3daa987 is version 0.6.0.
    assert set(venv.requirements) == {"vllm==0.11.0", "lmcache==0.3.10", "nixl==0.6.0", "torch==2.8.0"}
    assert venv.python == "3.12"  # LMCache's nixl dependency ends before 3.13


def test_the_aggregated_twin_has_the_same_gpus_and_nothing_of_pd() -> None:
    twin = example(TWIN)
    [server] = twin.engines.values()
    gpus = server.env["CUDA_VISIBLE_DEVICES"].split(",")
    assert len(gpus) == 4 and server.flag("tensor-parallel-size") == "4"
    assert server.transfer is None and server.lmcache == {}
    flags = {word for word in server.argv if word.startswith("--")}
    assert flags == {"--served-model-name", "--host", "--port", "--tensor-parallel-size", "--max-model-len"}
    assert not [name for name in server.env if name.startswith(("LMCACHE_", "VLLM_NIXL_", "UCX_"))]
    assert not [key for key in twin.texts() if "lmcache" in key.id]
    assert twin.proxy["mode"] == "aggregated" and twin.proxy["listen"]["port"] == 9100
    assert twin.proxy["servers"] == [{"name": "server-0", "url": f"http://{HOST}:7200"}]
    assert not twin.proxy.keys() & {"prefillers", "decoders", "notification"}


def test_both_twins_differ_only_in_how_they_serve() -> None:
    """A comparison is fair when driver, packages and runtime are the same."""
    pd, plain = (
        {r.id for r in example(name).state.values() if isinstance(r, Package | Venv)}
        for name in (ARTICLE, TWIN)
    )
    assert pd == plain
