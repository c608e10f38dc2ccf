"""Rules on the model, on what a GPU must hold of it, and on the network that carries its KV."""

from __future__ import annotations

from pdctl.spec.rules.about import About, doubt, warning

H100 = "hosts: [{name: gpu01, address: 10.0.0.11, gpus: {count: 8, model: H100-SXM-80GB}}]\n"
NIXL = "serving: {connector: nixl, prefillers: {}, decoders: {}}\n"


def _two(network: str, other: str = "") -> str:
    gpus = "gpus: {count: 8, model: H100-SXM-80GB}"
    return (
        f"hosts:\n- {{name: gpu01, address: 10.0.0.11, {gpus}, network: {network}}}\n"
        f"- {{name: gpu02, address: 10.0.0.12, {gpus}, network: {other or network}}}\n" + NIXL
    )


MODELS = (
    About(
        "MODEL003",
        "The model's heads cannot be shared out to the ranks",
        "Each rank computes a whole number of attention heads, and of KV heads one or more, or several"
        " ranks hold"
        " the same one; vLLM ends with an assertion otherwise.",
        "Take a tensor_parallel that the error names.",
        "serving: {connector: nixl, prefillers: {tensor_parallel: 3}, decoders: {tensor_parallel: 3}}\n",
    ),
    doubt(
        "MODEL004",
        "The context is longer than the model is made for",
        "vLLM refuses to start. The length is that of the model's config.json, or of pdctl's table.",
        "Lower `model.max_model_len`, or give `--hf-overrides` with a rope scaling on every role.",
        "model: {id: Qwen/Qwen3-8B, max_model_len: 131072}\n",
    ),
    warning(
        "MODEL005",
        "The spec contradicts the model",
        "`model.kv` wins, and buffers are sized by it: with a wrong shape they are no whole number of"
        " chunks, or hold fewer than is told. `bytes_per_value` is 2 unless `--kv-cache-dtype` or"
        " `model.dtype` says otherwise.",
        "Remove `model.kv`, or the part of it that is wrong.",
        "model: {id: openai/gpt-oss-120b, kv: {layers: 36, kv_heads: 8, head_dim: 45}}\n",
    ),
    warning(
        "MODEL006",
        "The model's config.json on this machine says nothing",
        "It is looked for under `model.path` and in the Hugging Face cache. Without it only pdctl's own"
        " table of"
        " models and `model.kv` count. Files of over 4 MiB are not read.",
        "Mend the file, or suppress the rule.",
        "",
    ),
    doubt(
        "MODEL007",
        "The connector does not move all layers of the model",
        "Layers of Mamba or linear attention keep a state instead of KV. With a connector that does not"
        " support"
        " vLLM's hybrid manager of the KV cache vLLM turns it off, and such models then fail at startup (vLLM"
        " config/vllm.py, Dynamo issue 10741).",
        "Use `mode: aggregated`, another model, or `connector: nixl` with vLLM 0.32.0.",
        "model: {id: Qwen/Qwen3.5-35B-A3B, max_model_len: 4096}\n",
    ),
    warning(
        "MODEL008",
        "It is not proven that the connector moves all layers of the model",
        "Some keep a state instead of KV. vLLM 0.32.0 says that NixlConnector supports them.",
        "Prove it: `pdctl verify` compares the text with that of a server without transfer.",
        "model: {id: Qwen/Qwen3.5-35B-A3B, max_model_len: 4096}\n" + NIXL,
    ),
    About(
        "MODEL009",
        "Engines would download a vocabulary file, and the hosts have no internet",
        "vLLM renders the chats of gpt-oss with openai-harmony, which fetches `o200k_base.tiktoken` although"
        " the weights are local. It does so after minutes of loading, and the engine then ends (vLLM issue"
        " 22525, harmony issue 95).",
        "Fetch the file once and name its folder in `model.vocabulary`; pdctl puts it on each host and sets"
        " `TIKTOKEN_ENCODINGS_BASE`. Where hosts have it already, set that variable in `env` of each role.",
        "offline: true\nmodel: {id: openai/gpt-oss-120b, path: /models/gpt-oss-120b}\n",
    ),
    About(
        "MODEL010",
        "A vocabulary file is missing or damaged",
        "openai-harmony looks into the folder alone once it is named, and refuses a file whose sha256 is not"
        " that of the published one.",
        "Fetch the file that the error names, from where it says.",
        "",
    ),
    warning(
        "MODEL011",
        "Weights are loaded by name, and the hosts have no internet",
        "With `offline` engines get HF_HUB_OFFLINE=1 and find a model that is given by its id only in"
        " /opt/pdctl/models/huggingface of their host.",
        "Name the folder with the weights in `model.path`; or fill that cache, and suppress the rule.",
        "offline: true\nmodel: {id: Qwen/Qwen3-8B}\n",
    ),
    warning(
        "MODEL012",
        "What the model takes is not checked",
        "The size of its weights, its heads and its context come from its config.json on this machine or from"
        " pdctl's table. Where neither has them, or a name is misspelt, what needs them is not checked.",
        "Correct the id, or copy the model's config.json into `model.path` on this machine. Suppress the rule"
        " where you have reckoned for yourself.",
        "model: {id: openai/gpt-oss-12b, max_model_len: 4096}\n" + NIXL,
    ),
)
MEMORY = (
    doubt(
        "MEM001",
        "Weights and KV do not fit into the GPU",
        "vLLM refuses to start when the KV cache cannot hold one request of max_model_len. Counted are the"
        " weights of one rank, that KV, and 1 GiB for all else, the least there can be. The weights' size is"
        " that of their files on this machine, else follows from the shapes and bits in config.json.",
        "Take more ranks, a shorter context, larger GPUs or quantised weights, as the error says. Suppress"
        " the"
        " rule where you have seen it run.",
        H100 + "model: {id: meta-llama/Llama-3.3-70B-Instruct}\n" + NIXL,
    ),
    warning(
        "MEM002",
        "Weights and KV may not fit into the GPU",
        "With 5 GiB for activations, CUDA graphs and NCCL they would not, with 1 they would; 3 are usual.",
        "Take more ranks or a shorter context, as the warning says.",
        H100 + "model: {id: Qwen/Qwen3-32B}\n" + NIXL,
    ),
    doubt(
        "MEM003",
        "Too little of the GPU is left beside vLLM's share",
        "The CUDA context, what UCX allocates, and LMCache's transfer buffer lie outside"
        " gpu_memory_utilization: vLLM finds less free memory than it wants and ends, or they do.",
        "Lower `gpu_memory_utilization`, or make the buffer smaller. Suppress the rule where you have seen"
        " it run.",
        H100 + "serving: {prefillers: {tensor_parallel: 2}, decoders: {tensor_parallel: 2,"
        " gpu_memory_utilization: 0.95}}\n",
    ),
    warning(
        "MEM004",
        "There may be too little of the GPU left beside vLLM's share",
        "The CUDA context and what UCX allocates take 0.5 to 2 GiB of what is left, LMCache's transfer buffer"
        " its size.",
        "Lower `gpu_memory_utilization`, or make the buffer smaller.",
        H100
        + "serving:\n  prefillers: {tensor_parallel: 2, gpu_memory_utilization: 0.9}\n"
        + "  decoders: {tensor_parallel: 2, gpu_memory_utilization: 0.93}\n",
    ),
)
NETWORK = (
    doubt(
        "NET001",
        "The network carries less KV than the prefillers compute",
        "Then decoders wait for every prompt, and disaggregation costs more than it gives. The estimate is"
        " rough: a"
        " third of a GPU's speed, 90 % of the network's, at most 3 GB/s over TCP.",
        "Put prefillers and decoders that work together on one host, or use a faster network. Suppress the"
        " rule"
        " where you have measured otherwise.",
        _two("{gbit: 10}"),
    ),
    warning(
        "NET002",
        "Moving KV takes more than a tenth of the time of computing it",
        "It shows in the second token of each answer, and as a queue when all prefillers are busy.",
        "Use a faster network, or fewer prefillers a host.",
        _two("{gbit: 100, kind: roce}"),
    ),
    doubt(
        "NET003",
        "Prefillers and decoders are on InfiniBand and on RoCE",
        "A port is one or the other, and the two do not reach each other: NIXL cannot write into the other"
        " host's memory.",
        "Correct `kind`, or place the roles on hosts of one network. Suppress the rule where KV goes another"
        " way.",
        _two("{gbit: 400, kind: ib}", "{gbit: 400, kind: roce}"),
    ),
    warning(
        "NET004",
        "KV goes over TCP, since one of two hosts has no RDMA",
        "UCX falls back to TCP between them, at a few GB/s and with the CPU's help.",
        "Correct `kind`, or place prefillers and decoders on hosts of one network.",
        _two("{gbit: 400, kind: ib}", "{gbit: 400}"),
    ),
)
