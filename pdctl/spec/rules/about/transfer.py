"""Rules on what prefillers and decoders share, and on the buffers between them."""

from __future__ import annotations

from pdctl.spec.rules.about import About, doubt, warning

LLAMA = "model: {id: meta-llama/Llama-3.1-8B-Instruct, max_model_len: 16384}\n"
MATCHES = (
    About(
        "MATCH001",
        "Tensor parallelism differs with LMCache",
        "LMCache's keys hold the number of ranks (cache_engine.py), so chunks of the other side are never"
        " found.",
        "Make them equal, or use `connector: nixl`.",
        "serving: {prefillers: {tensor_parallel: 2}, decoders: {}}\n",
    ),
    About(
        "MATCH002",
        "No side's tensor parallelism divides the other's",
        "Ranks could not be matched to ranks.",
        "Make them equal, or one a multiple of the other.",
        "serving: {connector: nixl, prefillers: {tensor_parallel: 2}, decoders: {tensor_parallel: 3}}\n",
    ),
    About(
        "MATCH003",
        "Prefillers have more ranks than decoders, and the pinned vLLM is not known to allow it",
        "Support came in two steps, decoders with more ranks first (vLLM pull requests 18833 and 27274);"
        " before, the"
        " transfer crashes.",
        "Make them equal, or give decoders a multiple of the prefillers' tensor_parallel.",
        "serving: {connector: nixl, prefillers: {tensor_parallel: 2}, decoders: {tensor_parallel: 1}}\n",
    ),
    About(
        "MATCH004",
        "The form of the KV cache differs between the sides",
        "The bytes that a prefiller writes would mean something else to the decoder: at low load the text is"
        " silently wrong, at high load the transfer crashes. Looked at are flags in every spelling and"
        " variables.",
        "Give the setting on both sides with one value, or on neither.",
        "serving: {prefillers: {}, decoders: {extra_args: [--kv-cache-dtype, fp8]}}\n",
    ),
    doubt(
        "MATCH005",
        "What the KV cache is computed with differs between the sides",
        "Another tokenizer, template, attention backend or quantization makes KV that the decoder would not"
        " have"
        " computed; vLLM refuses some of these at the first request, LMCache finds nothing.",
        "Give the setting on both sides with one value, or on neither. Suppress the rule where the"
        " difference is"
        " meant and proven.",
        "serving: {prefillers: {env: {VLLM_ATTENTION_BACKEND: FLASHINFER}}, decoders: {}}\n",
    ),
    About(
        "MATCH006",
        "An instance has another hash seed",
        "Chunks are found by hashes: with another PYTHONHASHSEED on one side a decoder finds nothing and"
        " computes"
        " all of it again, and what it never fetches fills its buffer. `random` is another one in every"
        " process.",
        "Set `serving.lmcache.hash_seed`, which every instance gets.",
        "serving: {prefillers: {}, decoders: {env: {PYTHONHASHSEED: random}}}\n",
    ),
    About(
        "MATCH007",
        "Chunks are hashed by Python's own hash before Python 3.12",
        "It depends on where None lies in memory, so every process has keys of its own, whatever the seed.",
        "Remove the variable: pdctl sets a hash that is stable; or use Python 3.12.",
        'stack: {base: article-2025, python: "3.10"}\nserving:\n'
        "  prefillers: {env: {LMCACHE_PRE_CACHING_HASH_ALGORITHM: builtin}}\n"
        "  decoders: {env: {LMCACHE_PRE_CACHING_HASH_ALGORITHM: builtin}}\n",
    ),
    warning(
        "MATCH008",
        "Defaults of the answer differ between the sides",
        "The prefiller writes the first token of an answer (with LMCache before 0.5), the decoder the rest.",
        "Give the setting on both sides with one value, or on neither.",
        "serving: {prefillers: {}, decoders: {extra_args: [--generation-config=vllm]}}\n",
    ),
)
BUFFERS = (
    About(
        "KV001",
        "A buffer is not a whole number of KV chunks",
        "LMCache before 0.4.3 ends with an assertion, later versions round down and only log it. A chunk is"
        " layers x"
        " 2 x chunk_size x KV heads per rank x head size x bytes per value.",
        "Take one of the two sizes that the error names, or leave it out.",
        LLAMA + "serving: {prefillers: {}, decoders: {}, lmcache: {buffer_bytes: 5000000000}}\n",
    ),
    About(
        "KV002",
        "A buffer is smaller than one prompt",
        "A prompt's chunks leave the buffer only together, so one that does not fit waits for ever.",
        "Raise it, lower `model.max_model_len`, or leave it out.",
        LLAMA + "serving: {prefillers: {}, decoders: {}, lmcache: {buffer_bytes: 1073741824}}\n",
    ),
    About(
        "KV003",
        "Prefillers would split long prompts",
        "With several ranks LMCache sends a prompt that was split over two steps again from its start"
        " (pd_backend.py).",
        "Leave `max_num_batched_tokens` out, use tensor_parallel 1, or use `connector: nixl`.",
        "serving: {prefillers: {tensor_parallel: 2, max_num_batched_tokens: 8192}, decoders:"
        " {tensor_parallel: 2}}\n",
    ),
    About(
        "KV004",
        "Prefillers with several ranks work on several prompts at once",
        "Together they may exceed a step, and LMCache sends a split prompt again from its start.",
        "Leave `max_num_seqs` out, use tensor_parallel 1, or use `connector: nixl`.",
        "serving: {prefillers: {tensor_parallel: 2, max_num_seqs: 4}, decoders: {tensor_parallel: 2}}\n",
    ),
    warning(
        "KV005",
        "Fewer prompts fit into the buffer than requests are let in",
        "The proxy holds the others back: LMCache would wait for pages without end. A partial chunk takes a"
        " whole"
        " page. Prompts count as `bench.input_len`, or 1000 tokens.",
        "Raise the buffer to what the error names, or leave it out.",
        "model: {id: meta-llama/Llama-3.1-8B-Instruct, max_model_len: 4096}\n"
        "serving: {prefillers: {}, decoders: {max_num_seqs: 256}, lmcache: {buffer_bytes: 1073741824}}\n",
    ),
    warning(
        "KV006",
        "The benchmark asks for more than fits into the buffers",
        "Requests then queue at the proxy, and the time to first token holds the queue.",
        "Lower `bench.concurrency`, add decoders, or raise the buffer.",
        "bench: {input_len: 130000, output_len: 100, concurrency: 64}\n",
    ),
    warning(
        "KV007",
        "A buffer holds one long prompt only",
        "With room for two a prompt is moved while the one before it is still being fetched; with less"
        " each waits"
        " for the other.",
        "Raise it to what the warning names, or leave it out.",
        LLAMA + "serving: {prefillers: {}, decoders: {}, lmcache: {buffer_bytes: 3221225472}}\n",
    ),
)
