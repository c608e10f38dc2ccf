"""Every flag of `vllm serve`, to tell what a beginning of one means, and which take no value or several.

The parsers of 0.32.0 (entrypoints/launchers/cli_args.py, engine/arg_utils.py) and, of flags that are gone
since, of 0.11.0. Both are argparse with its default: a beginning that fits one flag stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping

_SWITCHES_NAMES = """
    aggregate-engine-logging allow-credentials allow-deprecated-quantization async-scheduling
    calculate-kv-scales cohere-is-reasoning-model cudagraph-metrics data-parallel-external-lb
    data-parallel-hybrid-lb data-parallel-multi-port-external-lb dcp-q-replicate disable-cascade-attn
    disable-chunked-mm-input disable-custom-all-reduce disable-fastapi-docs
    disable-frontend-multiprocessing disable-hybrid-kv-cache-manager disable-log-requests
    disable-log-stats disable-mm-preprocessor-cache disable-nccl-for-dp-synchronization
    disable-sliding-window disable-uvicorn-access-log enable-auto-tool-choice
    enable-batch-sharded-sampling enable-chunked-prefill enable-cumem-allocator enable-dbo
    enable-elastic-ep enable-ep-weight-filter enable-eplb enable-expert-parallel enable-fault-tolerance
    enable-flash-late-interaction enable-flashinfer-autotune enable-force-include-usage enable-hc-sp
    enable-layerwise-nvtx-tracing enable-log-deltas enable-log-outputs enable-log-requests
    enable-logging-iteration-details enable-lora enable-mamba-cache-stochastic-rounding
    enable-mamba-shared-prefix-checkpoint enable-mfu-metrics enable-mixed-moe-lora-format
    enable-mm-embeds enable-moe-shared-loras enable-multimodal-encoder-data-parallel
    enable-nccl-comm-suspend enable-offline-docs enable-per-request-metrics enable-prefix-caching
    enable-prompt-embeds enable-prompt-tokens-details enable-request-id-headers
    enable-return-routed-experts enable-scale-out enable-server-load-tracking enable-shm-tensor-arena
    enable-sleep-mode enable-ssl-refresh enable-tokenizer-info-endpoint enable-tower-connector-lora
    enable-trace-replay enforce-eager eplb-log-balancedness exclude-tools-when-tool-choice-none
    fail-on-environ-validation fully-sharded-loras grpc headless interleave-mm-strings
    jit-monitor-verbose kv-cache-metrics kv-sharing-fast-prefill language-model-only log-error-stack
    long-prefill-token-threshold-adaptive mm-device-do-normalize mm-encoder-only numa-bind
    ray-workers-use-nsight return-sampling-mask return-tokens-as-token-ids scheduler-reserve-full-isl
    skip-mm-profiling skip-tokenizer-init sleep-mode-offload-cudagraph specialize-active-lora
    swa-bounded-replay tokens-only trust-remote-code trust-request-chat-template trust-request-mm-kwargs
    use-fp64-gumbel use-replayssm use-tqdm-on-load
"""
# Take no value; `--no-x` switches them off.
SWITCHES = frozenset(f"--{name}" for name in _SWITCHES_NAMES.split())
_MANY_WORDS_NAMES = """
    allowed-media-domains api-key collect-detailed-traces cpu-offload-params cuda-graph-sizes
    cudagraph-capture-sizes ignore-patterns kv-cache-dtype-skip-layers logits-processors lora-modules
    lora-target-modules numa-bind-cpus numa-bind-nodes offload-params served-model-name
    sleep-preserve-parameter-names
"""
# Take all words up to the next flag.
MANY_WORDS = frozenset(f"--{name}" for name in _MANY_WORDS_NAMES.split())
# May be given several times, and each counts.
REPEATED = frozenset({"--middleware"})
_VALUED_NAMES = """
    additional-config all2all-backend allowed-headers allowed-local-media-path allowed-methods
    allowed-origins anthropic-disabled-thinking-effort api-server-count attention-backend
    attention-config aux-output-config block-size chat-template chat-template-content-format
    code-revision cohere-format compilation-config config config-format convert
    cp-kv-cache-interleave-size cpu-distributed-timeout-seconds cpu-offload-gb custom-histogram-buckets
    data-parallel-address data-parallel-backend data-parallel-rank data-parallel-rpc-port
    data-parallel-size data-parallel-size-local data-parallel-start-rank data-parallel-supervisor-port
    dbo-decode-token-threshold dbo-prefill-token-threshold dcp-comm-backend dcp-kv-cache-interleave-size
    decode-context-parallel-size default-chat-template-kwargs default-mm-loras device-ids
    device-memory-utilization diffusion-config disable-access-log-for-endpoints
    distributed-executor-backend distributed-timeout-seconds download-dir
    dp-supervisor-probe-failure-threshold dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s
    dp-sync-interval dtype ec-manager-config ec-transfer-config elastic-ep-max-dp-size engram-config
    eplb-config eplb-step-interval eplb-window-size expert-placement-strategy fault-tolerance-config
    fingerprint-mode fingerprint-value gdn-prefill-backend generation-config gpu-memory-utilization
    grpc-port guided-decoding-backend guided-decoding-disable-additional-properties
    guided-decoding-disable-any-whitespace guided-decoding-disable-fallback h11-max-header-count
    h11-max-incomplete-event-size hf-config-path hf-overrides hf-token host io-processor-plugin
    ir-op-priority jit-monitor-mode kda-decode-backend kda-prefill-backend kernel-config kv-cache-dtype
    kv-cache-memory-bytes kv-cache-metrics-sample kv-events-config kv-offloading-backend
    kv-offloading-size kv-transfer-config limit-mm-per-prompt linear-backend load-format log-config-file
    log-level logging-config logits-processor-pattern logprobs-mode long-prefill-token-threshold
    lora-dtype lora-extra-vocab-size mamba-backend mamba-block-size mamba-cache-dtype mamba-cache-mode
    mamba-cache-philox-rounds mamba-ssm-cache-dtype mamba-ssu-algorithm master-addr master-port
    max-cpu-loras max-cudagraph-capture-size max-log-len max-logprobs max-long-partial-prefills
    max-lora-cls-labels max-lora-rank max-loras max-model-len max-num-active-seqs max-num-batched-tokens
    max-num-partial-prefills max-num-queued-reqs max-num-queued-tokens max-num-scheduled-tokens
    max-num-seqs max-parallel-loading-workers media-io-kwargs mm-encoder-attn-backend
    mm-encoder-attn-dtype mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-margin
    mm-encoder-fp8-scale-save-path mm-encoder-tp-mode mm-hasher-algorithm mm-ipc-gpu-memory-gb
    mm-processor-cache-gb mm-processor-cache-type mm-processor-device mm-processor-kwargs
    mm-shm-cache-max-object-size-mb mm-tensor-ipc model model-class-overrides model-impl
    model-loader-extra-config moe-backend nnodes node-rank num-gpu-blocks-override num-lookahead-slots
    num-redundant-experts offload-backend offload-group-size offload-num-in-group offload-prefetch-step
    optimization-level otlp-traces-endpoint override-attention-dtype override-generation-config
    override-pooler-config per-request-spec-decode-metrics performance-mode pipeline-parallel-size
    pooler-config port prefill-context-parallel-size prefill-schedule-interval
    prefix-cache-retention-interval prefix-caching-hash-algo prefix-match-unit profiler-config
    pt-load-map-location quantization quantization-config reasoning-config reasoning-parser
    reasoning-parser-plugin renderer-num-workers replayssm-buffer-len response-role revision root-path
    rope-scaling rope-theta runner safetensors-load-strategy safetensors-prefetch-block-size
    safetensors-prefetch-num-threads scheduler-cls scheduling-policy seed
    show-hidden-metrics-for-version shutdown-timeout sparse-indexer-topk-backend spec-method spec-model
    spec-tokens speculative-config sse-keep-alive-interval ssl-ca-certs ssl-cert-reqs ssl-certfile
    ssl-ciphers ssl-keyfile stream-interval structured-outputs-config swap-space task
    tensor-parallel-size tokenizer tokenizer-mode tokenizer-revision tool-call-parser tool-parser-plugin
    tool-server tool-strict-level ubatch-size uds uvicorn-log-level video-pruning-method
    video-pruning-rate watermark watermark-config weight-transfer-config worker-cls worker-extension-cls
"""
# Take one value.
_VALUED = frozenset(f"--{name}" for name in _VALUED_NAMES.split())
FLAGS = SWITCHES | MANY_WORDS | REPEATED | _VALUED
# Switches that cannot be switched off again.
ON_ONLY = frozenset(
    (
        *("--aggregate-engine-logging", "--data-parallel-multi-port-external-lb", "--disable-log-stats"),
        *("--disable-mm-preprocessor-cache", "--enable-multimodal-encoder-data-parallel", "--grpc"),
        "--headless",
    )
)
OPTIONS = tuple(sorted(FLAGS | {f"--no-{flag[2:]}" for flag in SWITCHES - ON_ONLY} | {"--help"}))
SHORT_FLAGS: Mapping[str, str] = {
    "-asc": "--api-server-count",
    "-q": "--quantization",
    "-pp": "--pipeline-parallel-size",
    "-n": "--nnodes",
    "-r": "--node-rank",
    "-tp": "--tensor-parallel-size",
    "-dcp": "--decode-context-parallel-size",
    "-pcp": "--prefill-context-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpn": "--data-parallel-rank",
    "-dpr": "--data-parallel-start-rank",
    "-dpl": "--data-parallel-size-local",
    "-dpa": "--data-parallel-address",
    "-dpp": "--data-parallel-rpc-port",
    "-dpb": "--data-parallel-backend",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpe": "--data-parallel-external-lb",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "-ep": "--enable-expert-parallel",
    "-sc": "--speculative-config",
    "-dc": "--diffusion-config",
    "-cc": "--compilation-config",
    "-ac": "--attention-config",
    "-O": "--compilation-config",  # 0.11.0; later `-O3` is an optimization level
}
# Values of flags that take no others: of 0.11.0 and of 0.32.0 (config/cache.py).
CHOICES: Mapping[str, frozenset[str]] = {
    "--kv-cache-dtype": frozenset(
        (
            *("auto", "bfloat16", "float16", "fp8", "fp8_ds_mla", "fp8_e4m3", "fp8_e5m2", "fp8_inc"),
            *("fp8_per_token_head", "int4_per_token_head", "int8_per_token_head", "nvfp4", "nvfp4_4over6"),
            *("nvfp4_ds_mla", "turboquant_3bit_nc", "turboquant_4bit_nc", "turboquant_k3v4_nc"),
            *("turboquant_k8v4", "ultraquant_4bit"),
        )
    )
}
# Two names of one flag.
ALIASES: Mapping[str, str] = {"--device-memory-utilization": "--gpu-memory-utilization"}
